import { Badge, Button, Group, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { PagedTable } from "../../../ui/PagedTable";

type Payment = Schema["Payment"];
type Transfer = Schema["Transfer"];

const colors: Record<string, string> = { credited: "green", succeeded: "green", failed: "red", disputed: "red", expired: "gray", refunded: "gray", refunding: "yellow", pending: "blue", created: "blue", aside: "orange" };

/** What was paid in, and everything that moved in the account's ledger. */
export function Payments() {
  const { t } = useTranslation();
  const payments = usePages<Payment>(["payments"], (cursor, signal) => data(api.GET("/v1/payments", { params: { query: { cursor, limit: 100 } }, signal })), { refetchInterval: 15_000 });
  const transfers = usePages<Transfer>(["transfers"], (cursor, signal) => data(api.GET("/v1/transfers", { params: { query: { cursor, limit: 200 } }, signal })));
  const columns: Columns<Payment> = [
    { id: "at", header: t("payment.at"), cell: ({ row }) => <Time at={row.original.created_at} /> },
    { id: "provider", header: t("payment.provider"), cell: ({ row }) => t(`payment.by.${row.original.provider}`, { defaultValue: row.original.provider }) },
    { id: "amount", header: t("cost.amount"), cell: ({ row: { original: p } }) => <Money amount={p.amount} currency={p.currency} /> },
    { id: "credited", header: t("payment.credited"), cell: ({ row: { original: p } }) => <Money amount={p.credited} currency={p.currency} /> },
    {
      id: "state",
      header: t("lease.state"),
      cell: ({ row: { original: p } }) => (
        <Group gap={6} wrap="nowrap">
          <Badge color={colors[p.state]} variant="light" tt="none">
            {t(`payment.state.${p.state}`)}
          </Badge>
          {p.reason && <Text size="xs">{p.reason}</Text>}
        </Group>
      ),
    },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: p } }) =>
        p.checkout_url && /^https?:\/\//i.test(p.checkout_url) ? (
          <Button component="a" href={p.checkout_url} size="compact-sm">
            {t("pay.go_on")}
          </Button>
        ) : null,
    },
  ];
  const moves: Columns<Transfer> = [
    { id: "at", header: t("charge.posted"), cell: ({ row }) => <Time at={row.original.posted_at} /> },
    { id: "code", header: t("cost.what"), cell: ({ row }) => t(`transfer.${row.original.code}`, { defaultValue: row.original.code }) },
    { id: "amount", header: t("cost.amount"), cell: ({ row: { original: x } }) => <Money amount={x.amount} currency={x.currency} /> },
    { id: "from", header: t("transfer.from"), cell: ({ row }) => <Text size="xs" style={{ whiteSpace: "nowrap" }}>{row.original.debit}</Text> },
    { id: "to", header: t("transfer.to"), cell: ({ row }) => <Text size="xs" style={{ whiteSpace: "nowrap" }}>{row.original.credit}</Text> },
    { id: "about", header: t("transfer.about"), cell: ({ row }) => row.original.reference ?? "–" },
  ];
  return (
    <Stack>
      <PagedTable list={payments} empty={<Empty title={t("payment.empty.title")} text={t("payment.empty.text")} />} label={t("money.tab.payments")} columns={columns} rowKey={(p) => p.id} height={320} />
      <Title order={2} size="h4">
        {t("transfer.title")}
      </Title>
      {transfers.error ? <ErrorPanel error={transfers.error} retry={transfers.retry} /> : <DataTable label={t("transfer.title")} rows={transfers.rows} columns={moves} rowKey={(x) => x.id} more={transfers.more} loading={transfers.first || transfers.loading} height={480} />}
    </Stack>
  );
}
