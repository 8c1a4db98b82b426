import { Badge, Group, Select, Switch, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { Copy } from "../../ui/Copy";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { useUrlText } from "../../ui/urlstate";
import { PagedTable } from "../../ui/PagedTable";

export type Payment = Schema["Payment"];

export const paymentStates = ["created", "pending", "aside", "succeeded", "credited", "failed", "expired", "refunding", "refunded", "disputed"] as const;
const colours: Record<Payment["state"], string> = { created: "gray", pending: "blue", aside: "orange", succeeded: "teal", credited: "green", failed: "red", expired: "gray", refunding: "yellow", refunded: "gray", disputed: "red" };

export function PaymentState({ state }: { state: Payment["state"] }) {
  const { t } = useTranslation();
  return (
    <Badge color={colours[state]} variant="light" tt="none">
      {t(`op.payment.state.${state}`)}
    </Badge>
  );
}

/** All accounts' payments, and those that an operator should look at. */
export function Payments() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [attention, setAttention] = useUrlText("attention");
  const [state, setState] = useUrlText("state");
  const list = usePages<Payment>(
    ["operator", "payments", state, attention],
    (cursor, signal) => data(api.GET("/v1/operator/payments", { params: { query: { cursor, limit: 100, state: (state || undefined) as Payment["state"] | undefined, attention: attention ? true : undefined } }, signal })),
    { refetchInterval: 15_000 },
  );
  const columns: Columns<Payment> = [
    { id: "state", accessorFn: (p) => p.state, header: t("host.state"), cell: ({ row }) => <PaymentState state={row.original.state} /> },
    { id: "amount", accessorFn: (p) => Number(p.amount), header: t("payout.amount"), cell: ({ row: { original: p } }) => <Money amount={p.amount} currency={p.currency} /> },
    { id: "credited", accessorFn: (p) => Number(p.credited), header: t("op.payment.credited"), cell: ({ row: { original: p } }) => <Money amount={p.credited} currency={p.currency} /> },
    { id: "account", accessorFn: (p) => p.account_id, header: t("host.owner"), cell: ({ row }) => <Copy text={row.original.account_id} /> },
    { id: "provider", accessorFn: (p) => p.provider, header: t("op.payment.provider"), cell: ({ row }) => t(`payment.by.${row.original.provider}`, { defaultValue: row.original.provider }) },
    {
      id: "attention",
      accessorFn: (p) => p.attention ?? "",
      header: t("op.payment.attention"),
      cell: ({ row: { original: p } }) => (
        <Text size="sm" lineClamp={2} maw={360} title={p.attention}>
          {p.attention || "–"}
        </Text>
      ),
    },
    { id: "created", accessorFn: (p) => p.created_at, header: t("op.created"), cell: ({ row }) => <Time at={row.original.created_at} /> },
  ];
  return (
    <Page title={t("nav.op.payments")} about={t("op.payment.about")}>
      <Group>
        <Switch label={t("op.payment.only_attention")} checked={!!attention} onChange={(e) => setAttention(e.currentTarget.checked ? "yes" : "")} />
        <Select clearable placeholder={t("host.any_state")} aria-label={t("host.state")} value={state || null} onChange={(v) => setState(v ?? "")} data={paymentStates.map((s) => ({ value: s, label: t(`op.payment.state.${s}`) }))} />
      </Group>
      <PagedTable list={list} empty={<Empty title={t(attention ? "op.payment.calm.title" : "op.payment.empty.title")} text={t(attention ? "op.payment.calm.text" : "op.payment.empty.text")} />} label={t("nav.op.payments")} columns={columns} rowKey={(p) => p.id} onOpen={(p) => void navigate({ to: "/operate/payments/$paymentId", params: { paymentId: p.id } })} />
    </Page>
  );
}
