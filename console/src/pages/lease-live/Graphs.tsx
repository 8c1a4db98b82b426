import "@mantine/charts/styles.layer.css";
import { AreaChart } from "@mantine/charts";
import { Badge, Box, Group, Paper, SegmentedControl, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useEvents } from "../../api/events";
import { useMe } from "../../me";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { mib } from "../../ui/format";
import { Simulated } from "../../ui/simulated";

type Metrics = Schema["LeaseMetrics"];
type Sample = Schema["LeaseSample"];

const windows = { "600": "live.graphs.window.10m", "3600": "live.graphs.window.1h", "86400": "live.graphs.window.24h" } as const;
type Window = keyof typeof windows;

type Line = { name: string; text: string; color: string; value: (s: Sample, m: Metrics) => number };
type Graph = { id: string; lines: Line[]; write: (v: number, language: string) => string; most?: (m: Metrics) => number };

const percent = (v: number, language: string) => new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 }).format(v / 100);
const rate = (v: number, language: string) =>
  new Intl.NumberFormat(language, { style: "unit", unit: v >= 1e6 ? "megabyte-per-second" : "kilobyte-per-second", maximumFractionDigits: 1 }).format(v >= 1e6 ? v / 1e6 : v / 1e3);

const graphs: Graph[] = [
  { id: "gpu", lines: [{ name: "gpu", text: "live.graphs.gpu", color: "suanli.6", value: (s) => s.gpu_percent }], write: percent, most: () => 100 },
  { id: "vram", lines: [{ name: "vram", text: "live.graphs.vram", color: "grape.6", value: (s) => s.gpu_memory_used_mib }], write: mib },
  // Of one CPU as it is told; of those that were rented as it is shown.
  { id: "cpu", lines: [{ name: "cpu", text: "live.graphs.cpu", color: "blue.6", value: (s, m) => (s.cpu_percent * 1000) / Math.max(1, m.cpu_millis) }], write: percent, most: () => 100 },
  { id: "memory", lines: [{ name: "memory", text: "live.graphs.memory", color: "indigo.6", value: (s) => s.memory_used_mib }], write: mib, most: (m) => m.memory_mib },
  { id: "disk", lines: [{ name: "disk", text: "live.graphs.disk", color: "orange.7", value: (s) => s.disk_used_mib }], write: mib, most: (m) => m.disk_gib * 1024 },
  {
    id: "network",
    lines: [
      { name: "in", text: "live.graphs.in", color: "teal.7", value: (s) => s.ingress_bytes_per_second },
      { name: "out", text: "live.graphs.out", color: "pink.7", value: (s) => s.egress_bytes_per_second },
    ],
    write: rate,
  },
];

/** What a lease uses, over time and live. */
export function Graphs({ leaseId }: { leaseId: string }) {
  const { t } = useTranslation();
  const [window, setWindow] = useState<Window>("3600");
  const queries = useQueryClient();
  const key = ["lease-metrics", leaseId, window];
  const metrics = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}/metrics", { params: { path: { lease_id: leaseId }, query: { window_seconds: Number(window) } }, signal })),
    refetchInterval: 60_000, // the samples between come as events
    placeholderData: keepPreviousData,
  });
  const live = useEvents(`/v1/leases/${encodeURIComponent(leaseId)}/metric-events`, (e) => {
    if (e.event !== "sample") return;
    const now = e.data as Sample;
    queries.setQueryData<Metrics>(key, (m) => m && { ...m, now, samples: window === "600" ? [...m.samples, now] : m.samples });
  });
  if (metrics.error && !metrics.data) return <ErrorPanel error={metrics.error} retry={() => void metrics.refetch()} />;
  const m = metrics.data;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <SegmentedControl size="xs" aria-label={t("live.graphs.window")} value={window} onChange={(v) => setWindow(v as Window)} data={Object.entries(windows).map(([value, text]) => ({ value, label: t(text) }))} />
        <Group gap="xs">
          <Simulated simulated={m?.simulated} />
          <Badge variant="dot" tt="none" color={live ? "green" : "gray"} role="status">
            {t(live ? "live.graphs.live" : "live.graphs.not_live")}
          </Badge>
        </Group>
      </Group>
      {m && m.samples.length === 0 && !m.now ? (
        <Empty title={t("live.graphs.empty.title")} text={t("live.graphs.empty.text")} />
      ) : (
        <SimpleGrid cols={{ base: 1, sm: 2, xl: 3 }} spacing="sm">
          {graphs.map((g) => (m ? <Chart key={g.id} graph={g} metrics={m} window={Number(window)} /> : <Skeleton key={g.id} h={206} radius="md" />))}
        </SimpleGrid>
      )}
    </Stack>
  );
}

function Chart({ graph, metrics, window }: { graph: Graph; metrics: Metrics; window: number }) {
  const { t, i18n } = useTranslation();
  const zone = useMe()?.account.time_zone;
  const write = (v: number) => graph.write(v, i18n.language);
  // The chart asks also of no point at all, where nothing is under the pointer.
  const clock = (at: number, seconds?: boolean) => !Number.isFinite(at) ? "" : new Intl.DateTimeFormat(i18n.language, { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined, timeZone: zone }).format(at);
  const samples = metrics.now ? [...metrics.samples, metrics.now] : metrics.samples;
  const end = samples.length > 0 ? Date.parse(samples.at(-1)!.at) : 0;
  const points: Record<string, number | null>[] = [];
  let before = 0;
  for (const s of samples) {
    const at = Date.parse(s.at);
    if (at <= before || at < end - window * 1000) continue;
    // Where it did not run, or was not heard, nothing is drawn.
    if (before && at - before > metrics.step_seconds * 3000) points.push({ at: before + 1, ...Object.fromEntries(graph.lines.map((l) => [l.name, null])) });
    points.push({ at, ...Object.fromEntries(graph.lines.map((l) => [l.name, l.value(s, metrics)])) });
    before = at;
  }
  const last = points.at(-1);
  const most = (name: string) => points.reduce((n, p) => Math.max(n, p[name] ?? 0), 0);
  const said = graph.lines.map((l) => t("live.graphs.said", { name: t(l.text), now: write(last?.[l.name] ?? 0), most: write(most(l.name)) })).join("; ");
  const limit = graph.most?.(metrics);
  return (
    <Paper withBorder p="sm">
      <Group justify="space-between" align="baseline" gap="xs" wrap="nowrap">
        <Title order={2} size="h6" fw={600}>
          {t(`live.graphs.title.${graph.id}`)}
        </Title>
        <Text size="sm" className="figure" aria-hidden>
          {graph.lines.map((l) => `${graph.lines.length > 1 ? `${t(l.text)} ` : ""}${write(last?.[l.name] ?? 0)}`).join(" · ")}
          {limit !== undefined && limit !== 100 && <Text component="span" size="xs" c="dimmed">{` / ${write(limit)}`}</Text>}
        </Text>
      </Group>
      <Box role="img" aria-label={said} mt="xs">
        <div aria-hidden>
          <AreaChart
            h={150}
            data={points}
            dataKey="at"
            series={graph.lines.map((l) => ({ name: l.name, label: t(l.text), color: l.color }))}
            curveType="monotone"
            withDots={false}
            connectNulls={false}
            strokeWidth={1.5}
            gridAxis="x"
            tickLine="none"
            withGradient={false}
            fillOpacity={0.15}
            valueFormatter={write}
            xAxisProps={{ type: "number", domain: [end - window * 1000, end], tickFormatter: (at: number) => clock(at), tickCount: 5, minTickGap: 40 }}
            yAxisProps={{ domain: [0, limit ?? "auto"], width: 70, tickCount: 4, ticks: limit === undefined ? undefined : [0, limit / 2, limit] }}
            tooltipProps={{ labelFormatter: (at: unknown) => clock(Number(at), true) }}
            areaChartProps={{ accessibilityLayer: false }}
            areaProps={{ isAnimationActive: false }}
          />
        </div>
      </Box>
    </Paper>
  );
}
