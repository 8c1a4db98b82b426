import { Paper, SimpleGrid, Skeleton, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { Section } from "../../ui/Section";
import { PayoutTable } from "./PayoutTable";
import { Statements } from "./Statements";

type Payable = Schema["Payable"];

/** What is there for a provider to be paid, what was paid, and the months' statements. */
export function Payouts() {
  const { t } = useTranslation();
  const payable = useQuery({ queryKey: ["payable"], queryFn: ({ signal }) => data(api.GET("/v1/earnings/payable", { signal })), refetchInterval: 30_000 });
  const payouts = usePages<Schema["Payout"]>(["payouts"], (cursor, signal) => data(api.GET("/v1/payouts", { params: { query: { cursor, limit: 100 } }, signal })), { refetchInterval: 30_000 });
  const items = payable.data?.items ?? [];
  return (
    <Page title={t("payout.title")} about={t("payout.about")}>
      <Section title={t("payable.title")}>
        {payable.error ? (
          <ErrorPanel error={payable.error} retry={() => void payable.refetch()} />
        ) : payable.isPending ? (
          <Skeleton height={180} />
        ) : items.length === 0 ? (
          <Empty title={t("payable.empty.title")} text={t("payable.empty.text")} />
        ) : (
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            {items.map((p) => (
              <PayableCard key={p.currency} payable={p} />
            ))}
          </SimpleGrid>
        )}
      </Section>
      <Section title={t("payout.list")}>
        {payouts.error ? (
          <ErrorPanel error={payouts.error} retry={payouts.retry} />
        ) : !payouts.first && payouts.rows.length === 0 ? (
          <Empty title={t("payout.empty.title")} text={t("payout.empty.text")} />
        ) : (
          <PayoutTable rows={payouts.rows} more={payouts.more} loading={payouts.first || payouts.loading} />
        )}
      </Section>
      <Statements />
    </Page>
  );
}

function PayableCard({ payable: p }: { payable: Payable }) {
  const { t } = useTranslation();
  return (
    <Paper withBorder p="md">
      <Text size="sm" c="dimmed">
        {t("payable.available")}
      </Text>
      <Title order={3}>
        <Money amount={p.available} currency={p.currency} />
      </Title>
      <Table mt="xs" verticalSpacing={4}>
        <Table.Tbody>
          {(["earned", "held", "reserved", "paid", "owed"] as const).map((k) => (
            <Table.Tr key={k}>
              <Table.Th fw={400}>{t(`payable.${k}`)}</Table.Th>
              <Table.Td ta="right">
                <Money amount={p[k]} currency={p.currency} />
              </Table.Td>
            </Table.Tr>
          ))}
          {p.next_at && (
            <Table.Tr>
              <Table.Th fw={400}>{t("payable.next_at")}</Table.Th>
              <Table.Td ta="right">
                <Time at={p.next_at} />
              </Table.Td>
            </Table.Tr>
          )}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}
