import { Group, Progress, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Copy } from "../../ui/Copy";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { mib } from "../../ui/format";
import { GPUHealth } from "./HostState";
import { gpusOf, type GPU, type Host } from "./hosts";

const heat = (celsius: number) => (celsius >= 85 ? "red" : celsius >= 75 ? "orange" : "teal");

/** A host's GPUs as they are now, and the leases that have them. */
export function HostGPUs({ host }: { host: Host }) {
  const { t, i18n } = useTranslation();
  const columns: Columns<GPU> = [
    { id: "index", accessorFn: (g) => g.index, header: "#", cell: ({ row }) => row.original.index },
    {
      id: "model",
      accessorFn: (g) => g.model,
      header: t("host.gpu.model"),
      cell: ({ row: { original: g } }) => (
        <Group gap={6} wrap="nowrap">
          <Text fw={600} size="sm" className="figure">
            {g.model}
          </Text>
          <Simulated simulated={g.simulated} />
        </Group>
      ),
    },
    {
      id: "health",
      accessorFn: (g) => g.health,
      header: t("host.gpu.health"),
      cell: ({ row: { original: g } }) => (
        <Group gap={6} wrap="nowrap">
          <GPUHealth gpu={g} />
          {g.reason && (
            <Text size="xs" maw={280} lineClamp={2} title={g.reason}>
              {g.reason}
            </Text>
          )}
        </Group>
      ),
    },
    {
      id: "temperature",
      accessorFn: (g) => g.temperature_c,
      header: t("host.gpu.temperature"),
      cell: ({ row: { original: g } }) => (
        <Group gap={6} wrap="nowrap">
          <Progress w={60} value={g.temperature_c} color={heat(g.temperature_c)} aria-label={t("host.gpu.temperature")} />
          <span className="figure">{`${g.temperature_c} °C`}</span>
        </Group>
      ),
    },
    { id: "use", accessorFn: (g) => g.utilization_percent, header: t("host.gpu.use"), cell: ({ row }) => <span className="figure">{`${row.original.utilization_percent} %`}</span> },
    { id: "memory", accessorFn: (g) => g.used_mib, header: t("host.gpu.memory"), cell: ({ row }) => <span className="figure">{mib(row.original.used_mib, i18n.language)}</span> },
    { id: "power", accessorFn: (g) => g.power_watts, header: t("host.gpu.power"), cell: ({ row }) => <span className="figure">{`${row.original.power_watts} W`}</span> },
    { id: "lease", accessorFn: (g) => g.lease_id ?? "", header: t("host.gpu.lease"), cell: ({ row }) => (row.original.lease_id ? <Copy text={row.original.lease_id} /> : t("host.gpu.free")) },
    { id: "uuid", header: "UUID", cell: ({ row }) => <Copy text={row.original.uuid} label={`${row.original.uuid.slice(0, 12)}…`} /> },
  ];
  const leases = host.leases ?? [];
  return (
    <Stack>
      {gpusOf(host).length ? <DataTable label={t("host.gpus")} rows={gpusOf(host)} columns={columns} rowKey={(g) => g.uuid} height={520} /> : <Text c="dimmed">{t("host.no_gpus")}</Text>}
      <Section title={t("host.leases")}>
        {leases.length ? (
          <Group>
            {leases.map((id) => (
              <Copy key={id} text={id} />
            ))}
          </Group>
        ) : (
          <Text c="dimmed">{t("host.leases.none")}</Text>
        )}
      </Section>
    </Stack>
  );
}
