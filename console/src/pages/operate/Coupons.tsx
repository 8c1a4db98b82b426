import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { Copy } from "../../ui/Copy";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { FormButton } from "../../ui/FormDialog";
import { duration, Time } from "../../ui/format";
import { Page } from "../../ui/Page";

type Coupon = Schema["Coupon"];

/** Codes by which accounts get a grant. */
export function Coupons() {
  const { t, i18n } = useTranslation();
  const list = useQuery({ queryKey: ["operator", "coupons"], queryFn: ({ signal }) => data(api.GET("/v1/operator/coupons", { signal })) });
  const rows = list.data?.items ?? [];
  const columns: Columns<Coupon> = [
    { id: "code", accessorFn: (c) => c.code, header: t("op.coupon.code"), cell: ({ row }) => <Copy text={row.original.code} /> },
    { id: "rule", accessorFn: (c) => c.rule, header: t("op.coupon.rule"), cell: ({ row }) => row.original.rule },
    { id: "used", accessorFn: (c) => c.used, header: t("op.coupon.used"), cell: ({ row }) => <span className="figure">{row.original.used}</span> },
    { id: "valid", accessorFn: (c) => c.valid_seconds, header: t("op.coupon.valid"), cell: ({ row }) => duration(row.original.valid_seconds, i18n.language) },
    { id: "created", accessorFn: (c) => c.created_at, header: t("op.created"), cell: ({ row }) => <Time at={row.original.created_at} /> },
  ];
  const create = (
    <FormButton
      title={t("op.coupon.create")}
      about={t("op.coupon.create_about")}
      action={t("op.coupon.create")}
      variant="filled"
      done={t("done")}
      keys={[["operator", "coupons"]]}
      fields={[
        { name: "rule", label: t("op.coupon.rule"), help: t("op.coupon.rule_about"), required: true },
        { name: "days", label: t("op.coupon.days"), kind: "number", min: 1, max: 3650, required: true, initial: 90 },
      ]}
      run={(v, key) => data(api.POST("/v1/operator/coupons", { params: { header: once(key) }, body: { rule: v.rule.trim(), valid_seconds: v.days * 86_400 } }))}
    />
  );
  return (
    <Page title={t("nav.op.coupons")} about={t("op.coupon.about")} actions={create}>
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : !list.isPending && rows.length === 0 ? (
        <Empty title={t("op.coupon.empty.title")} text={t("op.coupon.empty.text")} />
      ) : (
        <DataTable label={t("nav.op.coupons")} rows={rows} columns={columns} rowKey={(c) => c.code} loading={list.isPending} />
      )}
    </Page>
  );
}
