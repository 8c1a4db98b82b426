import "@mantine/charts/styles.layer.css";
import { Heatmap } from "@mantine/charts";
import { ColorSwatch, Group, ScrollArea, Text, useComputedColorScheme } from "@mantine/core";
import { useTranslation } from "react-i18next";

const light = ["#c5f0f5", "#63cbd9", "#1c96a8", "#0a6575", "#064450"];

/** Occupancy by day, in per cent, as a calendar: a column is a week. */
export function Calendar({ label, days, from, until, simulated }: { label: string; days: Record<string, number>; from: string; until: string; simulated?: boolean }) {
  const { t, i18n } = useTranslation();
  const colours = useComputedColorScheme("light") === "dark" ? [...light].reverse() : light;
  const day = (date: string) => new Intl.DateTimeFormat(i18n.language, { dateStyle: "full", timeZone: "UTC" }).format(new Date(`${date}T00:00:00Z`));
  const months = Array.from({ length: 12 }, (_, m) => new Intl.DateTimeFormat(i18n.language, { month: "short", timeZone: "UTC" }).format(new Date(Date.UTC(2026, m, 1))));
  const weekdays = Array.from({ length: 7 }, (_, d) => new Intl.DateTimeFormat(i18n.language, { weekday: "short", timeZone: "UTC" }).format(new Date(Date.UTC(2026, 1, 1 + d)))); // a Sunday
  const text = ({ date, value }: { date: string; value: number | null }) => `${day(date)}: ${value === null ? t("occupancy.not_listed") : t("occupancy.percent", { percent: value })}${simulated ? " · simulated" : ""}`;
  return (
    <div>
      <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": label }}>
      <Heatmap
        role="img"
        aria-label={label}
        data={days}
        domain={[0, 100]}
        startDate={from}
        endDate={until}
        colors={colours}
        rectSize={18}
        gap={3}
        rectRadius={4}
        withMonthLabels
        withWeekdayLabels
        weekdaysLabelsWidth={40}
        withOutsideDates={false}
        monthLabels={months}
        weekdayLabels={weekdays}
        withTooltip
        getTooltipLabel={text}
      />
      </ScrollArea>
      <Group gap={4} mt="xs" aria-hidden>
        <Text size="xs">0 %</Text>
        {colours.map((c) => (
          <ColorSwatch key={c} color={c} size={16} radius={4} withShadow={false} />
        ))}
        <Text size="xs">100 %</Text>
      </Group>
    </div>
  );
}
