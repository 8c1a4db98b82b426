import "@mantine/charts/styles.layer.css";
import { LineChart } from "@mantine/charts";
import { Group, Paper, SegmentedControl, Skeleton, Stack, Text, Title } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, type Schema } from "../../../api/client";
import { useMe } from "../../../me";
import { ErrorPanel } from "../../../ui/errors";
import { money } from "../../../ui/format";
import { Simulated } from "../../../ui/simulated";
import { none } from "./search";

type Props = { zone: string; model: string; gpus: number; days: number; setDays: (days: number) => void };
type Point = { at: number; price: number | null; ask: number | null; step: Schema["PriceStep"] };

// The curve has numbers; what is shown to be read are the API's own texts.
function points(h: Schema["PriceHistory"]): Point[] {
  const of = (at: string, s: Schema["PriceStep"]): Point => ({ at: Date.parse(at), price: none(s.price_per_gpu_hour) ? null : Number(s.price_per_gpu_hour), ask: none(s.ask_per_gpu_hour) ? null : Number(s.ask_per_gpu_hour), step: s });
  const list = h.steps.map((s) => of(s.at, s));
  const last = h.steps.at(-1);
  if (last) list.push(of(h.to, last));
  return list;
}

/** What a bundle cost on the spot market, with what was not exceeded most of the time. */
export function PriceChart({ zone, model, gpus, days, setDays }: Props) {
  const { t, i18n } = useTranslation();
  const timeZone = useMe()?.account.time_zone;
  const history = useQuery({
    queryKey: ["market-history", zone, model, gpus, days],
    queryFn: ({ signal }) => data(api.GET("/v1/market/history", { params: { query: { zone, gpu_model: model, gpus, from: new Date(Date.now() - days * 86_400_000).toISOString() } }, signal })),
    refetchInterval: 30_000,
    placeholderData: keepPreviousData,
  });
  const h = history.data;
  const m = (amount: string) => money(amount, h?.currency ?? "USD", i18n.language);
  // A market may be younger than the days that are asked for.
  const short = !h?.steps[0] || Date.parse(h.to) - Date.parse(h.steps[0].at) < 2 * 86_400_000;
  const tick = (at: number) => new Intl.DateTimeFormat(i18n.language, short ? { hour: "2-digit", minute: "2-digit", timeZone } : { month: "numeric", day: "numeric", timeZone }).format(at);
  const exact = (at: number) => new Intl.DateTimeFormat(i18n.language, { dateStyle: "medium", timeStyle: "short", timeZone }).format(at);
  const quiet = history.error instanceof ApiError && history.error.status === 404;
  return (
    <Paper withBorder p="md" component="section">
      <Group justify="space-between" mb="sm">
        <Group gap="xs">
          <Title order={2} size="h4">
            {t("spot.history")}
          </Title>
          <Simulated simulated={h?.simulated} />
        </Group>
        <SegmentedControl size="xs" aria-label={t("spot.days")} value={String(days)} onChange={(v) => setDays(Number(v))} data={["1", "7", "30"].map((v) => ({ value: v, label: t("spot.n_days", { count: Number(v) }) }))} />
      </Group>
      {history.error && !quiet ? (
        <ErrorPanel error={history.error} retry={() => void history.refetch()} />
      ) : !h && !quiet ? (
        <Skeleton h={260} role="status" aria-label={t("loading")} />
      ) : !h || h.steps.length === 0 ? (
        <Stack h={260} justify="center" align="center">
          <Text c="dimmed" ta="center">
            {t("spot.no_history")}
          </Text>
        </Stack>
      ) : (
        <>
          <div role="img" aria-label={t("spot.chart", { gpus, model, min: m(h.min_per_gpu_hour), median: m(h.p50_per_gpu_hour), max: m(h.max_per_gpu_hour) })}>
            <LineChart
              h={260}
              data={points(h)}
              dataKey="at"
              curveType="stepAfter"
              withDots={false}
              withLegend
              connectNulls={false}
              strokeWidth={2}
              lineChartProps={{ accessibilityLayer: false }}
              xAxisProps={{ type: "number", scale: "time", domain: ["dataMin", "dataMax"], tickFormatter: tick }}
              yAxisProps={{ width: 72, domain: [0, "auto"], tickFormatter: (v: number) => money(String(v), h.currency, i18n.language, 4) }}
              tooltipProps={{
                content: ({ payload }) => {
                  const p = payload?.[0]?.payload as Point | undefined;
                  return p ? (
                    <Paper withBorder shadow="md" p="xs">
                      <Text size="xs">{exact(p.at)}</Text>
                      <Text size="sm">{`${t("spot.price")}: ${none(p.step.price_per_gpu_hour) ? t("spot.nobody") : m(p.step.price_per_gpu_hour)}`}</Text>
                      <Text size="sm">{`${t("spot.ask")}: ${none(p.step.ask_per_gpu_hour) ? t("spot.no_ask") : m(p.step.ask_per_gpu_hour)}`}</Text>
                    </Paper>
                  ) : null;
                },
              }}
              series={[
                { name: "price", label: t("spot.price"), color: "suanli.5" },
                { name: "ask", label: t("spot.ask"), color: "gray.5", strokeDasharray: "4 4" },
              ]}
            />
          </div>
          <Text size="sm" c="dimmed" mt="xs">
            {none(h.max_per_gpu_hour) ? t("spot.nobody_paid") : t("spot.percentiles", { p10: m(h.p10_per_gpu_hour), p50: m(h.p50_per_gpu_hour), p90: m(h.p90_per_gpu_hour), max: m(h.max_per_gpu_hour) })}
          </Text>
        </>
      )}
    </Paper>
  );
}
