import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { Money, Time } from "../../ui/format";
import { usePages } from "../../ui/pages";
import { PagedTable } from "../../ui/PagedTable";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";

type Grant = Schema["Grant"];
type Invoice = Schema["Invoice"];

/** What an account was given for use, and what is left of it. */
export function AccountGrants({ accountId }: { accountId: string }) {
  const { t } = useTranslation();
  const grants = useQuery({ queryKey: ["operator", "accounts", accountId, "grants"], queryFn: ({ signal }) => data(api.GET("/v1/operator/accounts/{account_id}/grants", { params: { path: { account_id: accountId } }, signal })), refetchInterval: 30_000 });
  const columns: Columns<Grant> = [
    { id: "kind", header: t("grant.kind"), accessorFn: (g) => g.kind, cell: ({ row }) => t(`grant.kind.${row.original.kind}`) },
    { id: "amount", header: t("grant.amount"), cell: ({ row: { original: g } }) => <Money amount={g.amount} currency={g.currency} /> },
    { id: "left", header: t("grant.left"), cell: ({ row: { original: g } }) => <Money amount={g.left} currency={g.currency} /> },
    { id: "until", header: t("grant.until"), cell: ({ row: { original: g } }) => (g.expires_at ? <Time at={g.expires_at} /> : g.active_from ? t("order.never") : t("grant.unused")) },
    { id: "why", header: t("grant.why"), cell: ({ row }) => row.original.reference ?? "–" },
  ];
  const rows = grants.data?.items ?? [];
  return (
    <Section title={t("op.grants.title")} about={t("op.grants.about")}>
      {grants.error ? (
        <ErrorPanel error={grants.error} retry={() => void grants.refetch()} />
      ) : grants.data && rows.length === 0 ? (
        <Text c="dimmed">{t("op.grants.none")}</Text>
      ) : (
        <DataTable label={t("op.grants.title")} rows={rows} columns={columns} rowKey={(g) => g.id} loading={grants.isPending} height={260} />
      )}
    </Section>
  );
}

/** An account's invoices, as they were written down. */
export function AccountInvoices({ accountId }: { accountId: string }) {
  const { t } = useTranslation();
  const invoices = usePages<Invoice>(["operator", "accounts", accountId, "invoices"], (cursor, signal) => data(api.GET("/v1/operator/accounts/{account_id}/invoices", { params: { path: { account_id: accountId }, query: { cursor, limit: 100 } }, signal })));
  const columns: Columns<Invoice> = [
    { id: "number", header: t("op.due.number"), accessorFn: (v) => v.number, cell: ({ row: { original: v } }) => <><span className="figure">{v.number}</span> <Simulated simulated={v.simulated} /></> },
    { id: "from", header: t("cost.from"), cell: ({ row }) => <Time at={row.original.start} /> },
    { id: "to", header: t("cost.to"), cell: ({ row }) => <Time at={row.original.end} /> },
    { id: "total", header: t("op.due.total"), cell: ({ row: { original: v } }) => <Money amount={v.total} currency={v.currency} /> },
  ];
  return (
    <Section title={t("op.invoices.title")} about={t("op.invoices.about")}>
      <PagedTable list={invoices} empty={<Text c="dimmed">{t("op.invoices.none")}</Text>} label={t("op.invoices.title")} columns={columns} rowKey={(v) => v.id} height={260} />
    </Section>
  );
}
