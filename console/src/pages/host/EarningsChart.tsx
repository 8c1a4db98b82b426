import "@mantine/charts/styles.layer.css";
import { BarChart } from "@mantine/charts";
import { Group, Paper, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../api/client";
import { Money } from "../../ui/format";
import { Section } from "../../ui/Section";

type Row = Schema["EarningsRow"];

/** What was earned each day, one chart for each currency. */
export function EarningsChart({ rows }: { rows: Row[] }) {
  const { t, i18n } = useTranslation();
  const currencies = [...new Set(rows.flatMap((r) => (r.sums ?? []).map((s) => s.currency)))];
  const day = (d: string) => new Intl.DateTimeFormat(i18n.language, { month: "short", day: "numeric", timeZone: "UTC" }).format(new Date(`${d}T00:00:00Z`));
  return currencies.map((currency) => {
    // The bars' heights are numbers; the amounts that are read are the texts.
    const points = new Map<string, Record<string, string | number>>();
    for (const r of rows) {
      const sum = r.sums?.find((s) => s.currency === currency);
      const point = points.get(r.day ?? "") ?? { day: day(r.day ?? "") };
      const series = r.simulated ? "simulated" : "real";
      point[series] = Number(sum?.earned ?? 0);
      point[`${series}_text`] = sum?.earned ?? "0";
      points.set(r.day ?? "", point);
    }
    const series = [
      { name: "real", label: t("earn.real"), color: "teal.7" },
      { name: "simulated", label: "simulated", color: "yellow.6" },
    ].filter((s) => [...points.values()].some((p) => s.name in p));
    return (
      <Section key={currency} title={t("earn.chart", { currency })}>
        <BarChart
          h={240}
          role="img"
          aria-label={t("earn.chart", { currency })}
          data={[...points.values()]}
          dataKey="day"
          type="stacked"
          series={series}
          withLegend={series.length > 1}
          maxBarWidth={48}
          barChartProps={{ accessibilityLayer: false }}
          tooltipAnimationDuration={0}
          tooltipProps={{
            content: ({ label, payload }) => (
              <Paper withBorder shadow="sm" p="xs">
                <Text size="sm" fw={600}>
                  {label}
                </Text>
                {(payload ?? []).map((p) => (
                  <Group key={String(p.name)} gap="xs" justify="space-between">
                    <Text size="xs">{series.find((s) => s.name === p.name)?.label}</Text>
                    <Text size="xs" fw={600}>
                      <Money amount={String((p.payload as Record<string, string>)[`${String(p.name)}_text`] ?? "0")} currency={currency} />
                    </Text>
                  </Group>
                ))}
              </Paper>
            ),
          }}
        />
      </Section>
    );
  });
}
