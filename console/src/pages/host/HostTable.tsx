import { Group, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Time } from "../../ui/format";
import { Simulated } from "../../ui/simulated";
import { HostState } from "./HostState";
import { hottest, modelsOf, rentedGPUs, type Host } from "./hosts";

/** Hosts in a table; a row leads to its host. */
export function HostTable({ label, rows, loading, owners }: { label: string; rows: Host[]; loading?: boolean; owners?: boolean }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const columns: Columns<Host> = [
    {
      id: "name",
      accessorFn: (h) => h.name,
      header: t("host.name"),
      cell: ({ row: { original: h } }) => (
        <Group gap={6} wrap="nowrap">
          <Text fw={600} size="sm" truncate w="max-content" maw={220} style={{ flexShrink: 0 }} title={h.name}>
            {h.name}
          </Text>
          <Simulated simulated={h.simulated} />
        </Group>
      ),
    },
    { id: "state", accessorFn: (h) => h.state, header: t("host.state"), cell: ({ row }) => <HostState host={row.original} /> },
    { id: "gpus", accessorFn: modelsOf, header: t("host.gpus"), cell: ({ getValue }) => <span className="figure">{(getValue() as string) || t("host.no_gpus")}</span> },
    { id: "rented", accessorFn: rentedGPUs, header: t("host.rented"), cell: ({ row: { original: h } }) => <span className="figure">{`${rentedGPUs(h)} / ${h.total.gpus}`}</span> },
    { id: "temperature", accessorFn: (h) => hottest(h) ?? -1, header: t("host.hottest"), cell: ({ row }) => <span className="figure">{hottest(row.original) === undefined ? "–" : `${hottest(row.original)} °C`}</span> },
    { id: "place", accessorFn: (h) => `${h.region} / ${h.zone}${h.rack ? ` / ${h.rack}` : ""}`, header: t("host.place"), cell: ({ getValue }) => <span className="figure">{getValue() as string}</span> },
    { id: "reliability", accessorFn: (h) => Number(h.reliability_percent), header: t("host.reliability"), cell: ({ row }) => <span className="figure">{`${row.original.reliability_percent} %`}</span> },
    ...(owners ? ([{ id: "owner", accessorFn: (h: Host) => h.account_id, header: t("host.owner"), cell: ({ getValue }: { getValue: () => string }) => <span className="figure">{getValue()}</span> }] as Columns<Host>) : []),
    { id: "seen", accessorFn: (h) => h.last_seen_at ?? "", header: t("host.seen"), cell: ({ row }) => <Time at={row.original.last_seen_at} relative /> },
  ];
  return <DataTable label={label} rows={rows} columns={columns} rowKey={(h) => h.id} loading={loading} onOpen={(h) => void navigate({ to: "/hosts/$hostId", params: { hostId: h.id } })} />;
}
