import { Badge, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { FormButton } from "../../ui/FormDialog";
import { Money, Time } from "../../ui/format";
import { Section } from "../../ui/Section";

type Due = Schema["Due"];

const colours: Record<Due["state"], string> = { open: "blue", due: "yellow", overdue: "red", paid: "green", credited: "gray", uncollectible: "dark" };

/** An account's invoices as they stand, with what can be taken back or given up. */
export function Dues({ accountId }: { accountId: string }) {
  const { t } = useTranslation();
  const dues = useQuery({
    queryKey: ["operator", "accounts", accountId, "dues"],
    queryFn: ({ signal }) => data(api.GET("/v1/operator/accounts/{account_id}/dues", { params: { path: { account_id: accountId } }, signal })),
    refetchInterval: 30_000,
  });
  const rows = dues.data?.items ?? [];
  const sum = (of: "total" | "credited" | "owed"): Columns<Due>[number] => ({ id: of, accessorFn: (d) => Number(d[of]), header: t(`op.due.${of}`), cell: ({ row: { original: d } }) => <Money amount={d[of]} currency={d.currency} /> });
  const columns: Columns<Due> = [
    { id: "number", accessorFn: (d) => d.number, header: t("op.due.number"), cell: ({ row }) => <span className="figure">{row.original.number}</span> },
    { id: "state", accessorFn: (d) => d.state, header: t("host.state"), cell: ({ row: { original: d } }) => <Badge color={colours[d.state]} variant="light" tt="none">{t(`op.due.state.${d.state}`)}</Badge> },
    sum("total"),
    sum("credited"),
    sum("owed"),
    { id: "due_at", accessorFn: (d) => d.due_at, header: t("op.due.due_at"), cell: ({ row }) => <Time at={row.original.due_at} /> },
    { id: "stops_at", accessorFn: (d) => d.stops_at ?? "", header: t("op.due.stops_at"), cell: ({ row }) => <Time at={row.original.stops_at} /> },
    {
      id: "actions",
      header: t("column.actions"),
      cell: ({ row: { original: d } }) => (
        <Group gap="xs" wrap="nowrap">
          <CreditNote due={d} accountId={accountId} />
          {d.state === "overdue" && <WriteOff due={d} accountId={accountId} />}
        </Group>
      ),
    },
  ];
  return (
    <Section title={t("op.due.title")} about={t("op.due.about")}>
      {dues.error ? (
        <ErrorPanel error={dues.error} retry={() => void dues.refetch()} />
      ) : !dues.isPending && rows.length === 0 ? (
        <Text c="dimmed">{t("op.due.none")}</Text>
      ) : (
        <DataTable label={t("op.due.title")} rows={rows} columns={columns} rowKey={(d) => d.invoice_id} loading={dues.isPending} height={480} />
      )}
    </Section>
  );
}

function CreditNote({ due, accountId }: { due: Due; accountId: string }) {
  const { t } = useTranslation();
  return (
    <FormButton
      size="xs"
      label={t("op.note")}
      title={t("op.note.title", { number: due.number })}
      about={t("op.note.about")}
      action={t("op.note.issue")}
      danger
      variant="light"
      done={t("done")}
      keys={[["operator", "accounts", accountId]]}
      fields={[
        { name: "position", label: t("op.note.position"), help: t("op.note.position_about"), kind: "number", min: 0 },
        { name: "amount", label: t("op.note.amount"), kind: "money", unit: due.currency },
        { name: "reason", label: t("op.reason"), required: true },
        { name: "refund", label: t("op.note.refund"), kind: "check" },
      ]}
      run={(v, key) =>
        data(
          api.POST("/v1/operator/invoices/{invoice_id}/credit-notes", {
            params: { path: { invoice_id: due.invoice_id }, header: once(key) },
            body: { lines: v.position === "" ? undefined : [{ position: v.position, amount: v.amount.trim() }], reason: v.reason.trim(), refund: v.refund || undefined },
          }),
        )
      }
    />
  );
}

function WriteOff({ due, accountId }: { due: Due; accountId: string }) {
  const { t } = useTranslation();
  return (
    <FormButton
      size="xs"
      label={t("op.write_off")}
      title={t("op.write_off.title", { number: due.number })}
      about={t("op.write_off.about")}
      action={t("op.write_off")}
      danger
      variant="light"
      done={t("done")}
      keys={[["operator", "accounts", accountId]]}
      fields={[{ name: "reason", label: t("op.reason"), required: true }]}
      run={(v) => data(api.POST("/v1/operator/invoices/{invoice_id}/write-off", { params: { path: { invoice_id: due.invoice_id } }, body: { reason: v.reason.trim() } }))}
    />
  );
}
