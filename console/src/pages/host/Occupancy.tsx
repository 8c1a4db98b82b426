import { Skeleton, Stack, Text } from "@mantine/core";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMe } from "../../me";
import { dayIn } from "../../ui/Dates";
import { ErrorPanel } from "../../ui/errors";
import { Section } from "../../ui/Section";
import { Calendar } from "./Calendar";
import { EarningsTable } from "./EarningsTable";
import type { Host } from "./hosts";

const shown = 28; // days

/** How much of a host was rented, day by day, and what each GPU earned. */
export function Occupancy({ host }: { host: Host }) {
  const { t } = useTranslation();
  const zone = useMe()?.account.time_zone ?? "UTC";
  const days = Array.from({ length: shown }, (_, i) => dayIn(zone, i + 1 - shown));
  // A breakdown is by host or by day: by host for each day is both. What is over
  // does not change any more but for corrections.
  const each = useQueries({
    queries: days.map((day, i) => ({
      queryKey: ["earnings", "host", day],
      queryFn: ({ signal }: { signal: AbortSignal }) => data(api.GET("/v1/earnings/breakdown", { params: { query: { by: "host", from: day, until: dayIn(zone, i + 2 - shown) } }, signal })),
      staleTime: i === shown - 1 ? 30_000 : 3_600_000,
    })),
  });
  const gpus = useQuery({
    queryKey: ["earnings", "gpu", days[0]],
    queryFn: ({ signal }) => data(api.GET("/v1/earnings/breakdown", { params: { query: { by: "gpu", from: days[0], until: dayIn(zone, 1) } }, signal })),
    refetchInterval: 60_000,
  });
  const error = each.find((q) => q.error)?.error ?? gpus.error;
  if (error) return <ErrorPanel error={error} retry={() => each.concat(gpus as never).forEach((q) => q.error && void q.refetch())} />;
  const occupancy: Record<string, number> = {};
  each.forEach((q, i) => {
    const row = q.data?.rows?.find((r) => r.host_id === host.id);
    if (row?.occupancy_basis_points !== undefined) occupancy[days[i]!] = row.occupancy_basis_points / 100;
  });
  const own = (gpus.data?.rows ?? []).filter((r: Schema["EarningsRow"]) => r.host_id === host.id);
  return (
    <Stack>
      <Section title={t("occupancy.title")} about={t("occupancy.about", { zone })}>
        {each.some((q) => q.isPending) ? <Skeleton height={190} /> : <Calendar label={t("occupancy.title")} days={occupancy} from={days[0]!} until={days.at(-1)!} simulated={host.simulated} />}
      </Section>
      <Section title={t("earn.by.gpu")} about={t("occupancy.period")}>
        {gpus.isPending ? <Skeleton height={160} /> : own.length ? <EarningsTable rows={own} by="gpu" /> : <Text c="dimmed">{t("earn.none")}</Text>}
      </Section>
    </Stack>
  );
}
