import { Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { DataTable, type Columns } from "../../ui/DataTable";
import { GPUHealth } from "../host/HostState";
import { gpusOf, quarantined, type GPU, type Host } from "../host/hosts";

type Row = GPU & { host: Host };

/** GPUs that are let to nobody, with the reason. */
export function Quarantine({ hosts, loading }: { hosts: Host[]; loading?: boolean }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const rows = hosts.flatMap((host) => gpusOf(host).filter(quarantined).map((g): Row => ({ ...g, host })));
  const columns: Columns<Row> = [
    { id: "host", accessorFn: (g) => g.host.name, header: t("earn.host"), cell: ({ getValue }) => getValue() as string },
    { id: "gpu", accessorFn: (g) => g.index, header: "GPU", cell: ({ row: { original: g } }) => <span className="figure">{`#${g.index} ${g.model}${g.simulated ? " · simulated" : ""}`}</span> },
    { id: "health", accessorFn: (g) => g.health, header: t("host.gpu.health"), cell: ({ row }) => <GPUHealth gpu={row.original} /> },
    {
      id: "reason",
      header: t("op.quarantine.reason"),
      cell: ({ row }) => (
        <Text size="sm" lineClamp={2} title={row.original.reason}>
          {row.original.reason ?? "–"}
        </Text>
      ),
    },
  ];
  return <DataTable label={t("op.quarantine.title")} rows={rows} columns={columns} rowKey={(g) => g.uuid} loading={loading} height={420} onOpen={(g) => void navigate({ to: "/hosts/$hostId", params: { hostId: g.host.id } })} />;
}
