import { Group, SegmentedControl, Skeleton, Stack } from "@mantine/core";
import { DatePickerInput } from "@mantine/dates";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { useMay, useMe } from "../../me";
import { Dates, dayIn } from "../../ui/Dates";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { Money } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { useUrlText } from "../../ui/urlstate";
import { Calendar } from "./Calendar";
import { EarningsChart } from "./EarningsChart";
import { EarningsTable, type By } from "./EarningsTable";
import { useHosts } from "./hosts";

const month = (zone: string) => `${dayIn(zone).slice(0, 8)}01`;

function useBreakdown(by: By, from: string, last: string) {
  const until = new Date(Date.parse(`${last}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10);
  return useQuery({
    queryKey: ["earnings", by, from, until],
    queryFn: ({ signal }) => data(api.GET("/v1/earnings/breakdown", { params: { query: { by, from, until } }, signal })),
    refetchInterval: 60_000,
    placeholderData: keepPreviousData,
  });
}

/** What one's hosts earned, by host, GPU and day. */
export function Earnings() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const zone = useMe()?.account.time_zone;
  const mayHosts = useMay("host:read");
  const total = useQuery({ queryKey: ["earnings", "total"], queryFn: ({ signal }) => data(api.GET("/v1/earnings", { signal })), refetchInterval: 60_000 });
  return (
    <Page title={t("earn.title")} about={t("earn.about")}>
      {total.error ? (
        <ErrorPanel error={total.error} retry={() => void total.refetch()} />
      ) : total.data?.items?.length === 0 ? null : (
        (total.data?.items ?? [undefined]).map((e) => (
          <Facts
            key={e?.currency ?? ""}
            loading={!e}
            facts={(["charged", "commission", "earned", "earned_simulated", "payable"] as const).map((k) => ({ long: true, name: t(`earn.total.${k}`), value: e && <Money amount={e[k]} currency={e.currency} /> }))}
          />
        ))
      )}
      {zone ? <Breakdown zone={zone} names={mayHosts} open={(id) => void navigate({ to: "/hosts/$hostId", params: { hostId: id }, search: { tab: "occupancy" } as never })} /> : <Skeleton height={400} />}
    </Page>
  );
}

function Breakdown({ zone, names, open }: { zone: string; names: boolean; open: (hostId: string) => void }) {
  const { t } = useTranslation();
  const [by, setBy] = useUrlText("by", "host");
  const [from, setFrom] = useUrlText("from", month(zone));
  const [last, setLast] = useUrlText("last", dayIn(zone));
  const rows = useBreakdown(by as By, from, last);
  const days = useBreakdown("day", from, last);
  const error = rows.error ?? days.error;
  // A day has a row for real GPUs and one for simulated ones.
  const time = new Map<string, { rented: number; listed: number }>();
  for (const r of days.data?.rows ?? []) {
    const before = time.get(r.day ?? "");
    time.set(r.day ?? "", { rented: (before?.rented ?? 0) + r.rented_gpu_seconds, listed: (before?.listed ?? 0) + r.listed_gpu_seconds });
  }
  const occupancy = Object.fromEntries([...time].filter(([, d]) => d.listed > 0).map(([day, d]) => [day, Math.floor((d.rented * 10_000) / d.listed) / 100]));
  return (
    <Stack>
      <Dates>
        <Group align="flex-end">
          <DatePickerInput label={t("earn.from")} value={from} maxDate={last} onChange={(v) => v && setFrom(v)} w={170} />
          <DatePickerInput label={t("earn.last")} value={last} minDate={from} maxDate={dayIn(zone)} onChange={(v) => v && setLast(v)} w={170} />
          <SegmentedControl aria-label={t("earn.broken_down")} value={by} onChange={setBy} data={(["host", "gpu", "day"] as const).map((value) => ({ value, label: t(`earn.by.${value}`) }))} />
        </Group>
      </Dates>
      {error ? (
        <ErrorPanel error={error} retry={() => (void rows.refetch(), void days.refetch())} />
      ) : !rows.data || !days.data ? (
        <Skeleton height={420} />
      ) : rows.data.rows?.length ? (
        <>
          <EarningsChart rows={days.data.rows ?? []} />
          <Section title={t("occupancy.all")} about={t("occupancy.about", { zone })}>
            <Calendar label={t("occupancy.all")} days={occupancy} from={from} until={last} simulated={days.data.rows?.some((r) => r.simulated)} />
          </Section>
          {names ? <Named by={by as By} rows={rows.data.rows} open={open} /> : <EarningsTable rows={rows.data.rows} by={by as By} />}
        </>
      ) : (
        <Empty title={t("earn.empty.title")} text={t("earn.empty.text")} />
      )}
    </Stack>
  );
}

function Named({ by, rows, open }: { by: By; rows: Parameters<typeof EarningsTable>[0]["rows"]; open: (hostId: string) => void }) {
  const hosts = useHosts(60_000);
  const names = Object.fromEntries((hosts.data ?? []).map((h) => [h.id, h.name]));
  return <EarningsTable rows={rows} by={by} names={names} onOpen={by === "day" ? undefined : (r) => r.host_id && open(r.host_id)} />;
}
