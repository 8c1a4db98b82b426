import { Alert, Badge, Button, Group, Paper, Progress, Select, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, type Schema } from "../../api/client";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { duration, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { TextLink } from "../../ui/TextLink";
import { useUrlText } from "../../ui/urlstate";
import { useHosts } from "../host/hosts";
import { State } from "../rent/lease/State";

type Drill = Schema["Drill"];
type Felt = Schema["DrillLease"];

const lengths = [30, 60, 120, 300, 600, 900];

/** Outages that are tried on the cloud that runs, and what leases feel of them. */
export function Drills() {
  const { t, i18n } = useTranslation();
  const [drill, setDrill] = useUrlText("drill");
  const hosts = useHosts();
  const [kind, setKind] = useState<"host_outage" | "zone_outage">("host_outage");
  const [subject, setSubject] = useState<string | null>(null);
  const [seconds, setSeconds] = useState(60);
  const all = hosts.data ?? [];
  const zones = [...new Set(all.map((h) => `${h.region}/${h.zone}`))].sort();
  const ask = (consent: boolean) => {
    const [region, zone] = (subject ?? "").split("/");
    return data(api.POST("/v1/operator/drills", { body: { kind, ...(kind === "host_outage" ? { host_id: subject ?? "" } : { region, zone }), seconds, consent } }));
  };
  // First what would be felt, then whether that is meant.
  const begin = useAct(
    async (_: string) => {
      try {
        return await ask(false);
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "drill_consent") throw error;
        if (!(await confirm({ title: t("op.drill.consent"), text: error.message, action: t("op.drill.begin"), danger: true }))) return undefined;
        return ask(true);
      }
    },
    { keys: [["hosts"]], quiet: true, after: (d) => d && setDrill(d.id) },
  );
  return (
    <Page title={t("nav.op.drills")} about={t("op.drill.about")}>
      <Paper withBorder p="md" component="section">
        <Stack>
          <Title order={2} size="h4">
            {t("op.drill.new")}
          </Title>
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <Select label={t("op.drill.kind")} allowDeselect={false} value={kind} onChange={(v) => (setKind(v as typeof kind), setSubject(null))} data={(["host_outage", "zone_outage"] as const).map((k) => ({ value: k, label: t(`op.drill.kind.${k}`) }))} />
            <Select label={t(kind === "host_outage" ? "cluster.host" : "market.zone")} searchable value={subject} onChange={setSubject} data={kind === "host_outage" ? all.map((h) => ({ value: h.id, label: h.name })) : zones} />
            <Select label={t("op.drill.length")} allowDeselect={false} value={String(seconds)} onChange={(v) => setSeconds(Number(v))} data={lengths.map((s) => ({ value: String(s), label: duration(s, i18n.language) }))} />
          </SimpleGrid>
          <Text size="sm">{t("op.drill.means")}</Text>
          {begin.error && <ErrorPanel error={begin.error} />}
          <Group>
            <Button color="red" disabled={!subject} loading={begin.isPending} onClick={() => begin.mutate(`${kind} ${subject} ${seconds}`)}>
              {t("op.drill.look")}
            </Button>
          </Group>
        </Stack>
      </Paper>
      {drill ? <One id={drill} /> : <Text c="dimmed">{t("op.drill.none")}</Text>}
    </Page>
  );
}

/** One drill, while it goes on and after. */
function One({ id }: { id: string }) {
  const { t, i18n } = useTranslation();
  const found = useQuery({
    queryKey: ["drill", id],
    queryFn: ({ signal }) => data(api.GET("/v1/operator/drills/{drill_id}", { params: { path: { drill_id: id } }, signal })),
    refetchInterval: (q) => (q.state.data?.over && q.state.data.recovered ? false : 2_000),
    retry: false,
  });
  const stop = useAct((drill: string) => data(api.POST("/v1/operator/drills/{drill_id}/end", { params: { path: { drill_id: drill } } })), { keys: [["drill"]], done: t("done") });
  if (found.error && !found.data) return <ErrorPanel error={found.error} retry={() => void found.refetch()} />;
  const d: Drill | undefined = found.data;
  if (!d) return <Skeleton h={320} role="status" aria-label={t("loading")} />;
  const felt = d.leases ?? [];
  const begun = Date.parse(d.begun_at);
  const until = Date.parse(d.until);
  const passed = Math.min(100, Math.max(0, ((Date.now() - begun) / Math.max(1, until - begun)) * 100));
  const columns: Columns<Felt> = [
    { id: "lease", header: t("cluster.lease"), accessorFn: (l) => l.lease_id, cell: ({ row }) => <TextLink to="/leases/$leaseId" params={{ leaseId: row.original.lease_id }} size="sm">{row.original.lease_id}</TextLink> },
    { id: "before", header: t("op.drill.before"), cell: ({ row }) => <State state={row.original.before} /> },
    { id: "now", header: t("op.drill.now"), cell: ({ row }) => <State state={row.original.now} /> },
    { id: "unreachable", header: t("op.drill.unreachable"), accessorFn: (l) => l.unreachable_seconds, cell: ({ row }) => <span className="figure">{duration(row.original.unreachable_seconds, i18n.language)}</span> },
    { id: "ended", header: t("op.drill.ended"), accessorFn: (l) => String(l.ended), cell: ({ row }) => <Badge variant="light" tt="none" color={row.original.ended ? "red" : "green"}>{t(row.original.ended ? "op.drill.ended.yes" : "op.drill.ended.no")}</Badge> },
    { id: "host", header: t("cluster.host"), accessorFn: (l) => l.host_id, cell: ({ row }) => row.original.host_id },
  ];
  return (
    <Stack>
      <Alert variant="light" color={!d.over ? "orange" : d.recovered ? "green" : "yellow"} title={t(!d.over ? "op.drill.on" : d.recovered ? "op.drill.back" : "op.drill.coming_back")}>
        <Stack gap="xs">
          <Text size="sm" component="div">
            {`${d.subject} · `}
            <Time at={d.begun_at} /> – <Time at={d.until} />
          </Text>
          {!d.over && <Progress value={passed} color="orange" aria-label={t("op.drill.on")} />}
          {!d.over && (
            <Group>
              <Button size="xs" variant="default" loading={stop.isPending} onClick={() => stop.mutate(d.id)}>
                {t("op.drill.stop")}
              </Button>
            </Group>
          )}
        </Stack>
      </Alert>
      {felt.length === 0 ? <Text c="dimmed">{t("op.drill.no_leases")}</Text> : <DataTable label={t("op.drill.felt")} rows={felt} columns={columns} rowKey={(l) => l.lease_id} height={480} />}
    </Stack>
  );
}
