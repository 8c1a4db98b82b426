import { Group, Paper, ScrollArea, SimpleGrid, Skeleton, Stack, Table, Text, Title, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";
import { duration, money, Money, Time } from "../../../ui/format";
import { Simulated } from "../../../ui/simulated";
import { moving } from "./State";

/** What a lease has cost so far. */
export const useBill = (lease: Schema["Lease"]) =>
  useQuery({
    queryKey: ["bill", lease.id],
    queryFn: ({ signal }) => data(api.GET("/v1/bills/{lease_id}", { params: { path: { lease_id: lease.id } }, signal })),
    refetchInterval: lease.state === "running" || moving(lease.state) ? 5_000 : 60_000,
    retry: false,
  });

/** What a lease has cost and costs, line by line. */
export function Cost({ lease }: { lease: Schema["Lease"] }) {
  const { t, i18n } = useTranslation();
  const bill = useBill(lease);
  const b = bill.data;
  const used = (l: Schema["BillLine"]) => {
    if (l.unit === "s") return duration(l.charged, i18n.language);
    if (l.unit === "byte") return new Intl.NumberFormat(i18n.language, { maximumFractionDigits: 3 }).format(l.charged / 1e9) + " GB";
    if (l.unit === "month") return t("cost.months", { count: l.charged });
    return `${new Intl.NumberFormat(i18n.language).format(l.charged)} ${l.unit}`;
  };
  if (bill.error) return <ErrorPanel error={bill.error} retry={() => void bill.refetch()} />;
  if (!b) return <Skeleton h={220} role="status" aria-label={t("loading")} />;
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        {(
          [
            ["cost.so_far", <Money amount={b.total} currency={b.currency} />],
            ["cost.posted", <Money amount={b.posted} currency={b.currency} />],
            ["cost.now", <Money amount={b.price_per_hour_by_state[lease.state] ?? "0"} currency={b.currency} per="hour" />],
          ] as const
        ).map(([key, value]) => (
          <Paper key={key} withBorder p="sm">
            <Text size="sm" c="dimmed">
              {t(key)}
            </Text>
            <Text fw={600} fz="lg">
              {value}
            </Text>
          </Paper>
        ))}
      </SimpleGrid>
      <Paper withBorder p="md" component="section">
        <Group gap="xs" mb="xs">
          <Title order={2} size="h4">
            {t("cost.derivation")}
          </Title>
          <Simulated simulated={b.simulated} />
        </Group>
        <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("cost.derivation") }}>
          <Table verticalSpacing={6} miw={640}>
            <caption>
              <VisuallyHidden>{t("cost.derivation")}</VisuallyHidden>
            </caption>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("cost.what")}</Table.Th>
                <Table.Th>{t("cost.from")}</Table.Th>
                <Table.Th>{t("cost.to")}</Table.Th>
                <Table.Th ta="right">{t("cost.counted")}</Table.Th>
                <Table.Th ta="right">{t("cost.rate")}</Table.Th>
                <Table.Th ta="right">{t("cost.amount")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {b.lines.map((l, i) => (
                <Table.Tr key={i}>
                  <Table.Td>
                    {t(`meter.${l.meter}`)}
                    {l.kind !== "use" && (
                      <Text size="xs" c="dimmed">
                        {t(`bill_kind.${l.kind}`)}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>
                    <Time at={l.start} />
                  </Table.Td>
                  <Table.Td>{l.open ? t("cost.goes_on") : <Time at={l.end} />}</Table.Td>
                  <Table.Td ta="right" className="figure">
                    {used(l)}
                  </Table.Td>
                  <Table.Td ta="right" className="figure">
                    {money(l.rate, b.currency, i18n.language)} <Text span size="xs" c="dimmed">{`/ ${t(`rate_unit.${l.rate_unit}`)}`}</Text>
                  </Table.Td>
                  <Table.Td ta="right" className="figure">
                    {money(l.amount, b.currency, i18n.language)}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
            <Table.Tfoot>
              <Table.Tr>
                <Table.Th colSpan={5} scope="row">
                  {t("quote.total")}
                </Table.Th>
                <Table.Th ta="right" className="figure">
                  {money(b.total, b.currency, i18n.language)}
                </Table.Th>
              </Table.Tr>
            </Table.Tfoot>
          </Table>
        </ScrollArea>
      </Paper>
    </Stack>
  );
}
