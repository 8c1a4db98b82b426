import { Alert, Anchor, Group, Skeleton, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, once } from "../../api/client";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { FormButton } from "../../ui/FormDialog";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { PaymentState, type Payment } from "./Payments";

/** One payment with its refunds and disputes, and what an operator decides on it. */
export function PaymentPage() {
  const { t } = useTranslation();
  const { paymentId } = useParams({ strict: false }) as { paymentId: string };
  const payment = useQuery({
    queryKey: ["operator", "payments", "one", paymentId],
    queryFn: ({ signal }) => data(api.GET("/v1/payments/{payment_id}", { params: { path: { payment_id: paymentId } }, signal })),
    refetchInterval: 10_000,
  });
  const p = payment.data;
  return (
    <Page title={t("op.payment.one")} about={paymentId} actions={p && <Decisions payment={p} />}>
      {payment.error ? (
        <ErrorPanel error={payment.error} retry={() => void payment.refetch()} />
      ) : !p ? (
        <Skeleton height={220} />
      ) : (
        <>
          {p.attention && (
            <Alert color="orange" variant="light" title={t("op.payment.attention")}>
              {p.attention}
            </Alert>
          )}
          {p.reason && <Alert variant="light">{p.reason}</Alert>}
          <Facts
            facts={[
              { name: t("host.state"), value: <PaymentState state={p.state} /> },
              { name: t("payout.amount"), value: <Money amount={p.amount} currency={p.currency} /> },
              { name: t("op.payment.credited"), value: <Money amount={p.credited} currency={p.currency} /> },
              { name: t("op.payment.refunded"), value: <Money amount={p.refunded} currency={p.currency} /> },
              { name: t("op.payment.provider"), value: `${t(`payment.by.${p.provider}`, { defaultValue: p.provider })}${p.reference ? ` · ${p.reference}` : ""}` },
              { name: t("op.created"), value: <Time at={p.created_at} /> },
            ]}
          />
          <Anchor component={Link} to={`/operate/accounts/${p.account_id}`}>
            {`${t("op.account.one")} ${p.account_id}`}
          </Anchor>
          <Parts title={t("op.payment.refunds")} rows={(p.refunds ?? []).map((r) => ({ id: r.id, at: r.created_at, amount: r.amount, state: t(`op.payment.refund.${r.state}`), text: r.reason ?? r.reference ?? "" }))} currency={p.currency} />
          <Parts title={t("op.payment.disputes")} rows={(p.disputes ?? []).map((d) => ({ id: d.reference, at: d.at, amount: d.amount, state: t(`op.payment.dispute.${d.state}`), text: d.reference }))} currency={p.currency} />
        </>
      )}
    </Page>
  );
}

function Parts({ title, rows, currency }: { title: string; rows: { id: string; at: string; amount: string; state: string; text: string }[]; currency: string }) {
  const { t } = useTranslation();
  return (
    <Section title={title}>
      {rows.length === 0 ? (
        <Text c="dimmed">{t("op.payment.no_parts")}</Text>
      ) : (
        <Table>
          <Table.Tbody>
            {rows.map((r) => (
              <Table.Tr key={r.id}>
                <Table.Td>
                  <Time at={r.at} />
                </Table.Td>
                <Table.Td>
                  <Money amount={r.amount} currency={currency} />
                </Table.Td>
                <Table.Td>{r.state}</Table.Td>
                <Table.Td>{r.text}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Section>
  );
}

function Decisions({ payment: p }: { payment: Payment }) {
  const { t } = useTranslation();
  const path = { payment_id: p.id };
  const common = { done: t("done"), keys: [["operator", "payments"]] };
  const reason = { name: "reason", label: t("op.reason") };
  const bank = p.provider === "bank";
  return (
    <Group gap="xs">
      {bank && p.state === "pending" && (
        <FormButton
          {...common}
          title={t("op.payment.confirm")}
          about={t("op.payment.confirm_about")}
          action={t("op.payment.confirm")}
          variant="filled"
          fields={[{ name: "amount", label: t("payout.amount"), kind: "money", unit: p.currency, required: true }]}
          run={(v) => data(api.POST("/v1/payments/{payment_id}/confirm", { params: { path }, body: { amount: v.amount.trim() } }))}
        />
      )}
      {p.state === "aside" && (
        <>
          <FormButton {...common} title={t("op.payment.accept")} about={t("op.payment.accept_about")} action={t("op.payment.accept")} variant="filled" fields={[reason]} run={(v) => data(api.POST("/v1/payments/{payment_id}/resolve", { params: { path }, body: { accept: true, reason: v.reason || undefined } }))} />
          <FormButton {...common} title={t("op.payment.reject")} about={t("op.payment.reject_about")} action={t("op.payment.reject")} danger fields={[reason]} run={(v) => data(api.POST("/v1/payments/{payment_id}/resolve", { params: { path }, body: { accept: false, reason: v.reason || undefined } }))} />
        </>
      )}
      {p.state === "credited" && !bank && (
        <FormButton
          {...common}
          title={t("op.payment.refund_it")}
          about={t("op.payment.refund_about")}
          action={t("op.payment.refund_it")}
          danger
          fields={[{ name: "amount", label: t("payout.amount"), help: t("op.payment.refund_all"), kind: "money", unit: p.currency }, reason]}
          run={(v, key) => data(api.POST("/v1/payments/{payment_id}/refund", { params: { path, header: once(key) }, body: { amount: v.amount.trim() || undefined, reason: v.reason || undefined } }))}
        />
      )}
      {p.state === "credited" && bank && (
        <FormButton {...common} title={t("op.payment.reverse")} about={t("op.payment.reverse_about")} action={t("op.payment.reverse")} danger fields={[reason]} run={(v) => data(api.POST("/v1/payments/{payment_id}/reverse", { params: { path }, body: { reason: v.reason || undefined } }))} />
      )}
    </Group>
  );
}
