import { Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../../api/client";
import { useAct } from "../../../ui/act";
import { confirm } from "../../../ui/confirm";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { ErrorPanel } from "../../../ui/errors";
import { FormButton } from "../../../ui/FormDialog";
import { Time } from "../../../ui/format";
import { Output } from "../../../ui/Output";
import { Section } from "../../../ui/Section";
import { over, policies, runOver } from "./search";
import { RunState } from "./State";

type Run = Schema["Run"];

/** What was launched on all nodes of a cluster, with what all ranks of one print. */
export function Runs({ cluster: c, may }: { cluster: Schema["ClusterDetails"]; may: boolean }) {
  const { t } = useTranslation();
  const search = useSearch({ strict: false }) as { run?: string };
  const navigate = useNavigate();
  const list = useQuery({ queryKey: ["cluster-runs", c.id], queryFn: ({ signal }) => data(api.GET("/v1/clusters/{cluster_id}/runs", { params: { path: { cluster_id: c.id } }, signal })), refetchInterval: over(c.state) ? 60_000 : 3_000 });
  const stop = useAct((id: string, key) => data(api.POST("/v1/cluster-runs/{run_id}/stop", { params: { path: { run_id: id }, header: once(key) } })), { keys: [["cluster-runs"], ["cluster"]], done: t("cluster.run.stops") });
  const rows = list.data?.items ?? [];
  const show = (id?: string) => void navigate({ to: "/clusters/$clusterId", params: { clusterId: c.id }, search: id ? { run: id } : {}, replace: true, resetScroll: false });
  const shown = rows.find((r) => r.id === search.run) ?? rows[0];
  const busy = rows.some((r) => !runOver(r.state));
  const ask = async (r: Run) => {
    if (await confirm({ title: t("cluster.run.stop.title"), text: t(r.end_cluster ? "cluster.run.stop.text_end" : "cluster.run.stop.text"), action: t("cluster.run.stop"), danger: true })) stop.mutate(r.id);
  };
  const columns: Columns<Run> = [
    { id: "created", header: t("cluster.run.begun"), accessorFn: (r) => r.created_at, cell: ({ row }) => <Time at={row.original.created_at} /> },
    { id: "state", header: t("lease.state"), accessorFn: (r) => r.state, cell: ({ row }) => <RunState state={row.original.state} /> },
    { id: "exit", header: t("cluster.run.exit"), cell: ({ row }) => <span className="figure">{row.original.exit_code ?? "–"}</span> },
    { id: "attempt", header: t("cluster.run.attempt"), cell: ({ row: { original: r } }) => <span className="figure">{r.max_restarts ? `${r.attempt + 1} / ${r.max_restarts + 1}` : r.attempt + 1}</span> },
    {
      id: "actions",
      header: t("column.actions"),
      cell: ({ row: { original: r } }) => (
        <Group gap="xs" wrap="nowrap">
          {may && (
            <Button size="compact-sm" variant="default" disabled={shown?.id === r.id} onClick={() => show(r.id)}>
              {t("cluster.run.show")}
            </Button>
          )}
          {may && !runOver(r.state) && (
            <Button size="compact-sm" variant="light" color="red" loading={stop.isPending && stop.variables === r.id} onClick={() => void ask(r)}>
              {t("cluster.run.stop")}
            </Button>
          )}
        </Group>
      ),
    },
    { id: "message", header: t("cluster.run.why"), cell: ({ row }) => <Text size="sm" maw={420} truncate title={row.original.message}>{row.original.message || "–"}</Text> },
  ];
  const launch = may && !over(c.state) && c.state !== "ending" && c.state !== "failing" && (
    <FormButton
      title={t("cluster.launch")}
      about={t("cluster.launch.about")}
      action={t("cluster.launch")}
      variant="filled"
      keys={[["cluster-runs"]]}
      after={(r: Run) => show(r.id)}
      fields={[
        { name: "command", label: t("cluster.launch.command"), help: t("cluster.launch.command.help"), kind: "long", required: true },
        { name: "procs_per_node", label: t("cluster.launch.procs"), help: t("cluster.launch.procs.help"), kind: "number", min: 1, max: 64 },
        { name: "policy", label: t("cluster.launch.policy"), kind: "choice", required: true, initial: c.policy, choices: policies.map((p) => ({ value: p, label: t(`cluster.launch.policy.${p}`) })) },
        { name: "max_restarts", label: t("cluster.launch.restarts"), kind: "number", min: 0, max: 100, initial: 0 },
        { name: "end_cluster", label: t("cluster.launch.end"), kind: "check" },
      ]}
      run={(v, key) =>
        data(
          api.POST("/v1/clusters/{cluster_id}/runs", {
            params: { path: { cluster_id: c.id }, header: once(key) },
            body: { command: ["/bin/sh", "-c", v.command.trim()], ...(v.procs_per_node && { procs_per_node: v.procs_per_node }), policy: v.policy, ...(v.max_restarts && { max_restarts: v.max_restarts }), ...(v.end_cluster && { end_cluster: true }) },
          }),
        )
      }
    />
  );
  return (
    <Section title={t("cluster.runs")} about={t(busy ? "cluster.runs.busy" : "cluster.runs.about")} actions={!busy && launch}>
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : !list.isPending && rows.length === 0 ? (
        <Text c="dimmed">{t("cluster.runs.none")}</Text>
      ) : (
        <DataTable label={t("cluster.runs")} rows={rows} columns={columns} rowKey={(r) => r.id} loading={list.isPending} height={260} />
      )}
      {may && shown && <Output key={shown.id} label={t("cluster.run.output")} path={`/v1/cluster-runs/${encodeURIComponent(shown.id)}/logs?follow=true`} again={runOver(shown.state)} file={{ path: `/v1/cluster-runs/${encodeURIComponent(shown.id)}/logs`, name: `${c.name}-${shown.id}.log` }} height="320px" />}
    </Section>
  );
}
