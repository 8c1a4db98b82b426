import { Alert, Button, Group, Paper, Skeleton, Text, Timeline } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { useAct } from "../../ui/act";
import { ButtonLink } from "../../ui/ButtonLink";
import { confirm } from "../../ui/confirm";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { Check } from "./clusters/Check";
import { Nodes } from "./clusters/Nodes";
import { Runs } from "./clusters/Runs";
import { over } from "./clusters/search";
import { ClusterState } from "./clusters/State";
import { useLeaseChanges } from "./lease/live";

type Details = Schema["ClusterDetails"];

/** One cluster: its nodes, what runs on them, its network, and what happened to it. */
export function Cluster() {
  const { t } = useTranslation();
  const { clusterId: id } = useParams({ strict: false }) as { clusterId: string };
  const may = useMay("lease:write");
  const enters = useMay("lease:enter");
  useLeaseChanges();
  const found = useQuery({ queryKey: ["cluster", id], queryFn: ({ signal }) => data(api.GET("/v1/clusters/{cluster_id}", { params: { path: { cluster_id: id } }, signal })), refetchInterval: (q) => (q.state.data && over(q.state.data.state) ? 60_000 : 4_000), retry: false });
  const c = found.data;
  if (!c) {
    return (
      <Page title={t("cluster.one")}>
        {found.error ? (
          <>
            <ErrorPanel error={found.error} retry={() => void found.refetch()} />
            <Group>
              <ButtonLink to="/clusters" variant="default">
                {t("nav.clusters")}
              </ButtonLink>
            </Group>
          </>
        ) : (
          <Skeleton h={480} role="status" aria-label={t("loading")} />
        )}
      </Page>
    );
  }
  return (
    <Page
      title={c.name || c.id}
      about={t("cluster.shape", { nodes: c.node_count, gpus: c.gpus_per_node, model: c.gpu_model })}
      actions={
        <>
          <Simulated simulated={c.simulated} />
          <ClusterState state={c.state} />
          {may && !over(c.state) && c.state !== "ending" && c.state !== "failing" && <End cluster={c} />}
        </>
      }
    >
      <Alert variant="light" color={c.state === "failed" || c.state === "failing" ? "red" : c.state === "repairing" ? "orange" : "blue"} title={t(`cluster.state.${c.state}.title`)}>
        <Text size="sm">{t(`cluster.state.${c.state}.text`)}</Text>
        {c.message && (
          <Text size="sm" mt={4} style={{ overflowWrap: "anywhere" }}>
            {c.message}
          </Text>
        )}
      </Alert>
      <Facts
        facts={[
          { long: true, name: t("cluster.now_costs"), value: <Money amount={c.per_hour} currency={c.currency} per="hour" /> },
          { long: true, name: t("cluster.agreed"), value: <Money amount={c.agreed_per_hour} currency={c.currency} per="hour" /> },
          { long: true, name: t("cluster.policy"), value: t(`cluster.policy.${c.policy}`) },
          { long: true, name: t("lease.since"), value: <Time at={c.created_at} /> },
          { long: true, name: t("cluster.start_by"), value: <Time at={c.start_by} /> },
          { long: true, name: t("cluster.waits_until"), value: <Time at={c.waits_until} /> },
        ]}
      />
      <Nodes cluster={c} />
      <Runs cluster={c} may={enters} />
      {enters && c.state === "running" && <Check cluster={c} />}
      <Section title={t("cluster.history")}>
        <Paper withBorder p="md">
          <Timeline bulletSize={14} lineWidth={2} active={c.history.length}>
            {[...c.history].reverse().map((h) => (
              <Timeline.Item key={h.id} title={t(`cluster.event.${h.event}`)}>
                <ClusterState state={h.to} />
                {h.message && (
                  <Text size="sm" style={{ overflowWrap: "anywhere" }}>
                    {h.message}
                  </Text>
                )}
                <Text size="xs" c="dimmed">
                  <Time at={h.at} />
                </Text>
              </Timeline.Item>
            ))}
          </Timeline>
        </Paper>
      </Section>
    </Page>
  );
}

function End({ cluster: c }: { cluster: Details }) {
  const { t } = useTranslation();
  const end = useAct((id: string, key) => data(api.POST("/v1/clusters/{cluster_id}/end", { params: { path: { cluster_id: id }, header: once(key) } })), { keys: [["cluster"], ["clusters"], ["leases"]], done: t("cluster.ends") });
  const ask = async () => {
    if (await confirm({ title: t("cluster.end.title", { name: c.name }), text: t("cluster.end.text", { count: c.node_count }), action: t("cluster.end"), danger: true, type: c.state === "queued" ? undefined : c.name })) end.mutate(c.id);
  };
  return (
    <Button size="xs" variant="light" color="red" loading={end.isPending} onClick={() => void ask()}>
      {t("cluster.end")}
    </Button>
  );
}
