import { Group, SegmentedControl, Text } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { ButtonLink } from "../../ui/ButtonLink";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { PagedTable } from "../../ui/PagedTable";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";
import { ClusterState } from "./clusters/State";
import { useLeaseChanges } from "./lease/live";

type Cluster = Schema["Cluster"];

/** Gangs of leases that start together or not at all, live. */
export function Clusters() {
  const { t } = useTranslation();
  const { over } = useSearch({ strict: false }) as { over?: boolean };
  const navigate = useNavigate();
  const may = useMay("lease:write");
  useLeaseChanges();
  const list = usePages<Cluster>(["clusters", over ?? false], (cursor, signal) => data(api.GET("/v1/clusters", { params: { query: { cursor, limit: 100, ...(!over && { open: true }) } }, signal })), { refetchInterval: 5_000 });
  const columns: Columns<Cluster> = [
    { id: "name", header: t("lease.name"), accessorFn: (c) => c.name, cell: ({ row: { original: c } }) => <Text fw={600} maw={260} truncate>{c.name || c.id}</Text> },
    { id: "state", header: t("lease.state"), accessorFn: (c) => c.state, cell: ({ row }) => <ClusterState state={row.original.state} /> },
    {
      id: "gpu",
      header: t("market.gpu"),
      accessorFn: (c) => c.gpu_model,
      cell: ({ row: { original: c } }) => (
        <Group gap={6} wrap="nowrap">
          <span>{t("cluster.shape", { nodes: c.node_count, gpus: c.gpus_per_node, model: c.gpu_model })}</span>
          <Simulated simulated={c.simulated} />
        </Group>
      ),
    },
    { id: "price", header: t("market.price"), accessorFn: (c) => Number(c.per_hour), cell: ({ row: { original: c } }) => <Money amount={c.per_hour} currency={c.currency} per="hour" /> },
    { id: "policy", header: t("cluster.policy"), accessorFn: (c) => c.policy, cell: ({ row }) => t(`cluster.policy.${row.original.policy}`) },
    { id: "created", header: t("lease.since"), accessorFn: (c) => c.created_at, cell: ({ row }) => <Time at={row.original.created_at} relative /> },
  ];
  return (
    <Page
      title={t("nav.clusters")}
      about={t("cluster.about")}
      actions={
        <>
          <SegmentedControl aria-label={t("leases.which")} value={over ? "all" : "live"} onChange={(v) => void navigate({ to: "/clusters", search: v === "all" ? { over: true } : {} })} data={[{ value: "live", label: t("reserve.open") }, { value: "all", label: t("leases.all") }]} />
          {may && <ButtonLink to="/new-cluster">{t("cluster.new")}</ButtonLink>}
        </>
      }
    >
      <PagedTable
        list={list}
        label={t("nav.clusters")}
        columns={columns}
        rowKey={(c) => c.id}
        onOpen={(c) => void navigate({ to: "/clusters/$clusterId", params: { clusterId: c.id } })}
        empty={
          <Empty title={t("cluster.empty.title")} text={t("cluster.empty.text")}>
            {may && <ButtonLink to="/new-cluster">{t("cluster.new")}</ButtonLink>}
          </Empty>
        }
      />
    </Page>
  );
}
