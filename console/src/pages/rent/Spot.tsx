import { Button, Grid, Group, Paper, ScrollArea, SegmentedControl, Select, Skeleton, Stack, Table, Tabs, Text, Title, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { useMay } from "../../me";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Money } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Simulated } from "../../ui/simulated";
import { useLeaseChanges } from "./lease/live";
import { Advice } from "./spot/Advice";
import { BidForm } from "./spot/BidForm";
import { Bids } from "./spot/Bids";
import { Depth } from "./spot/Depth";
import { PriceChart } from "./spot/PriceChart";
import { none, type SpotSearch } from "./spot/search";

/** The spot markets: prices now and before, depth, advice, and one's own bids. */
export function Spot() {
  const { t } = useTranslation();
  const search = useSearch({ strict: false }) as SpotSearch;
  const navigate = useNavigate();
  const mayBid = useMay("lease:write");
  const mayRead = useMay("lease:read");
  useLeaseChanges();
  const markets = useQuery({ queryKey: ["market"], queryFn: ({ signal }) => data(api.GET("/v1/market", { signal })), refetchInterval: 10_000 });
  const change = (part: Partial<SpotSearch>) => void navigate({ to: "/spot", search: { ...search, ...part }, replace: true, resetScroll: false });
  const list = markets.data?.items ?? [];
  const id = (m: { zone: string; gpu_model: string; simulated: boolean }) => JSON.stringify([m.zone, m.gpu_model, m.simulated]);
  const market = list.find((m) => m.gpu_model === search.model && (!search.zone || m.zone === search.zone)) ?? list[0];
  const good = market?.goods.find((g) => g.gpus === search.gpus) ?? market?.goods[0];
  return (
    <Page title={t("spot.title")} about={t("spot.about")}>
      <Tabs value={search.tab ?? "market"} onChange={(v) => change({ tab: v === "bids" ? "bids" : undefined })} keepMounted={false}>
        <Tabs.List mb="md" aria-label={t("spot.title")}>
          <Tabs.Tab value="market">{t("spot.market")}</Tabs.Tab>
          {mayRead && <Tabs.Tab value="bids">{t("spot.bids")}</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="bids">
          <Bids />
        </Tabs.Panel>
        <Tabs.Panel value="market">
          {markets.error ? (
            <ErrorPanel error={markets.error} retry={() => void markets.refetch()} />
          ) : markets.isPending ? (
            <Skeleton h={420} role="status" aria-label={t("loading")} />
          ) : !market || !good ? (
            <Empty title={t("spot.empty.title")} text={t("spot.empty.text")} />
          ) : (
            <Stack>
              <Group align="flex-end">
                <Select
                  label={t("spot.which")}
                  w={280}
                  allowDeselect={false}
                  searchable
                  value={id(market)}
                  onChange={(v) => {
                    const m = list.find((x) => id(x) === v);
                    if (m) change({ model: m.gpu_model, zone: m.zone, gpus: undefined });
                  }}
                  data={list.map((m) => ({ value: id(m), label: `${m.gpu_model} · ${m.zone}${m.simulated ? " · simulated" : ""}` }))}
                />
                <SegmentedControl aria-label={t("market.count")} value={String(good.gpus)} onChange={(v) => change({ gpus: Number(v) })} data={market.goods.map((g) => ({ value: String(g.gpus), label: `${g.gpus} ×` }))} />
                {mayBid && <Button onClick={() => change({ bid: true })}>{t("market.bid")}</Button>}
              </Group>
              <Grid>
                <Grid.Col span={{ base: 12, lg: 8 }}>
                  <PriceChart zone={market.zone} model={market.gpu_model} gpus={good.gpus} days={search.days ?? 7} setDays={(d) => change({ days: d === 7 ? undefined : d })} />
                </Grid.Col>
                <Grid.Col span={{ base: 12, lg: 4 }}>
                  <Paper withBorder p="md" component="section" h="100%">
                    <Title order={2} size="h4" mb="sm">
                      {t("advice.title")}
                    </Title>
                    <Advice zone={market.zone} model={market.gpu_model} gpus={good.gpus} />
                  </Paper>
                </Grid.Col>
                <Grid.Col span={{ base: 12, lg: 8 }}>
                  <Paper withBorder p="md" component="section">
                    <Group gap="xs" mb="sm">
                      <Title order={2} size="h4">
                        {t("spot.now")}
                      </Title>
                      <Simulated simulated={market.simulated} />
                    </Group>
                    <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("spot.now") }}>
                      <Table miw={520}>
                        <caption>
                          <VisuallyHidden>{t("spot.now")}</VisuallyHidden>
                        </caption>
                        <Table.Thead>
                          <Table.Tr>
                            <Table.Th>{t("spot.bundle")}</Table.Th>
                            <Table.Th>{t("spot.price")}</Table.Th>
                            <Table.Th>{t("spot.ask")}</Table.Th>
                            <Table.Th>{t("spot.settled")}</Table.Th>
                            <Table.Th>{t("spot.bids_won")}</Table.Th>
                          </Table.Tr>
                        </Table.Thead>
                        <Table.Tbody>
                          {market.goods.map((g) => (
                            <Table.Tr key={g.gpus}>
                              <Table.Td className="figure">{`${g.gpus} × ${market.gpu_model}`}</Table.Td>
                              <Table.Td>{none(g.price_per_gpu_hour) ? <Text size="sm" c="dimmed">{t("spot.nobody")}</Text> : <Money amount={g.price_per_gpu_hour} currency={market.currency} />}</Table.Td>
                              <Table.Td>{none(g.ask_per_gpu_hour) ? <Text size="sm" c="dimmed">{t("spot.no_ask")}</Text> : <Money amount={g.ask_per_gpu_hour} currency={market.currency} />}</Table.Td>
                              <Table.Td>{none(g.settled_price_per_gpu_hour) ? "–" : <Money amount={g.settled_price_per_gpu_hour} currency={market.currency} />}</Table.Td>
                              <Table.Td className="figure">{`${g.won} / ${g.bids}`}</Table.Td>
                            </Table.Tr>
                          ))}
                        </Table.Tbody>
                      </Table>
                    </ScrollArea>
                  </Paper>
                </Grid.Col>
                <Grid.Col span={{ base: 12, lg: 4 }}>
                  <Depth market={market} />
                </Grid.Col>
              </Grid>
              {search.bid && mayBid && <BidForm key={id(market) + good.gpus} market={market} gpus={good.gpus} template={search.template} close={() => change({ bid: undefined })} />}
            </Stack>
          )}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
