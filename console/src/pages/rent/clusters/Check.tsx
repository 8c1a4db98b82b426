import { Badge, Button, Group, Loader, Paper, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../../api/client";
import { useAct } from "../../../ui/act";
import { ErrorPanel } from "../../../ui/errors";
import { Section } from "../../../ui/Section";
import { runOver } from "./search";

/** What one node tells of the check. */
type Speed = { node: number; nodes: number; bus_mbps: number; latency_ms: number; correct: boolean };

// Each line begins with its rank.
function speeds(log: string): Speed[] {
  const found: Speed[] = [];
  for (const line of log.split("\n")) {
    const at = line.indexOf("] ");
    try {
      const s = JSON.parse(at < 0 ? line : line.slice(at + 2)) as Partial<Speed>;
      if (typeof s.node === "number" && typeof s.bus_mbps === "number" && typeof s.latency_ms === "number" && (s.nodes ?? 0) > 0) found.push(s as Speed);
    } catch {
      // What else is printed is no result.
    }
  }
  return found.sort((a, b) => a.node - b.node);
}

/** Measures the private network by summing a vector over all nodes, as training does. */
export function Check({ cluster: c }: { cluster: Schema["ClusterDetails"] }) {
  const { t, i18n } = useTranslation();
  const [id, setId] = useState("");
  const begin = useAct(
    (cluster: string, key) => data(api.POST("/v1/clusters/{cluster_id}/runs", { params: { path: { cluster_id: cluster }, header: once(key) }, body: { command: ["/.suanli/suanli", "instance", "allreduce", "64", "3"], procs_per_node: 1, policy: "fail" } })),
    { keys: [["cluster-runs"]], quiet: true, after: (r) => setId(r.id) },
  );
  const run = useQuery({
    queryKey: ["cluster-check", id],
    queryFn: async ({ signal }) => {
      const r = await data(api.GET("/v1/cluster-runs/{run_id}", { params: { path: { run_id: id } }, signal }));
      if (!runOver(r.state)) return { state: r.state, message: r.message, result: [] };
      const log = (await data(api.GET("/v1/cluster-runs/{run_id}/logs", { params: { path: { run_id: id } }, parseAs: "text", signal }))) as unknown as string;
      return { state: r.state, message: r.message, result: speeds(log) };
    },
    enabled: !!id,
    refetchInterval: (q) => (q.state.data && runOver(q.state.data.state) ? false : 1_000),
  });
  const figure = (n: number, digits: number) => new Intl.NumberFormat(i18n.language, { maximumFractionDigits: digits }).format(n);
  const under = begin.isPending || (!!id && !run.error && !(run.data && runOver(run.data.state)));
  return (
    <Section
      title={t("cluster.check")}
      about={t("cluster.check.about")}
      actions={
        <Button variant="default" loading={under} onClick={() => begin.mutate(c.id)}>
          {t("cluster.check.begin")}
        </Button>
      }
    >
      {begin.error ? <ErrorPanel error={begin.error} /> : run.error ? <ErrorPanel error={run.error} retry={() => void run.refetch()} /> : null}
      {under && (
        <Group gap="xs" role="status">
          <Loader size="xs" />
          <Text size="sm">{t("cluster.check.under")}</Text>
        </Group>
      )}
      {!under && run.data && run.data.state !== "succeeded" && <ErrorPanel error={new Error(run.data.message || t("cluster.check.failed"))} />}
      {run.data && run.data.result.length > 0 && (
        <Paper withBorder p="md">
          <Table.ScrollContainer minWidth={340} scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "region", "aria-label": t("cluster.check") } }}>
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("cluster.rank")}</Table.Th>
                  <Table.Th ta="right">{t("cluster.check.bus")}</Table.Th>
                  <Table.Th ta="right">{t("cluster.check.latency")}</Table.Th>
                  <Table.Th>{t("cluster.check.sums")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {run.data.result.map((s) => (
                  <Table.Tr key={s.node}>
                    <Table.Td className="figure">{s.node}</Table.Td>
                    <Table.Td ta="right" className="figure">{`${figure(s.bus_mbps, 0)} Mbit/s`}</Table.Td>
                    <Table.Td ta="right" className="figure">{`${figure(s.latency_ms, 2)} ms`}</Table.Td>
                    <Table.Td>
                      <Badge variant="light" tt="none" color={s.correct ? "green" : "red"}>
                        {t(s.correct ? "cluster.check.right" : "cluster.check.wrong")}
                      </Badge>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </Paper>
      )}
    </Section>
  );
}
