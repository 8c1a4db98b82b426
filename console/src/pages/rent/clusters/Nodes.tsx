import { Badge, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { Copy } from "../../../ui/Copy";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { Section } from "../../../ui/Section";
import { TextLink } from "../../../ui/TextLink";
import { State } from "../lease/State";

type Node = Schema["ClusterNode"];

/** The nodes of a cluster by rank: where each is, how it does, and whether it hears the others. */
export function Nodes({ cluster: c }: { cluster: Schema["ClusterDetails"] }) {
  const { t } = useTranslation();
  const leases = new Map(c.leases.map((l) => [l.id, l]));
  const columns: Columns<Node> = [
    { id: "rank", header: t("cluster.rank"), accessorFn: (n) => n.rank, cell: ({ row }) => <span className="figure">{row.original.rank}</span> },
    {
      id: "lease",
      header: t("cluster.lease"),
      cell: ({ row: { original: n } }) =>
        n.lease_id ? (
          <TextLink to="/leases/$leaseId" params={{ leaseId: n.lease_id }} size="sm">
            {leases.get(n.lease_id)?.name || n.lease_id}
          </TextLink>
        ) : (
          <Text size="sm">{t("cluster.lost")}</Text>
        ),
    },
    { id: "state", header: t("lease.state"), cell: ({ row: { original: n } }) => (n.lease_id && leases.has(n.lease_id) ? <State state={leases.get(n.lease_id)!.state} /> : "–") },
    {
      id: "network",
      header: t("cluster.network"),
      cell: ({ row: { original: n } }) => (
        <Badge variant="light" tt="none" color={n.problem ? "red" : n.connected_peers >= c.node_count - 1 ? "green" : "gray"}>
          {n.problem || t("cluster.peers", { peers: n.connected_peers, of: c.node_count - 1 })}
        </Badge>
      ),
    },
    { id: "name", header: t("cluster.node_name"), cell: ({ row }) => <Copy text={row.original.name} /> },
    { id: "address", header: t("cluster.address"), cell: ({ row }) => <Copy text={row.original.address} /> },
    { id: "zone", header: t("market.zone"), accessorFn: (n) => n.zone ?? "", cell: ({ row: { original: n } }) => [n.region, n.zone, n.rack].filter(Boolean).join(" / ") || "–" },
    { id: "host", header: t("cluster.host"), accessorFn: (n) => n.host_id ?? "", cell: ({ row }) => (row.original.host_id ? <Copy text={row.original.host_id} /> : "–") },
  ];
  return (
    <Section title={t("cluster.nodes")} about={t("cluster.nodes.about")}>
      {c.nodes.length === 0 ? <Text c="dimmed">{t("cluster.nodes.none")}</Text> : <DataTable label={t("cluster.nodes")} rows={c.nodes} columns={columns} rowKey={(n) => String(n.rank)} height={480} />}
    </Section>
  );
}
