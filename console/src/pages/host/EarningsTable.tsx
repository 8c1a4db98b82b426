import { Group, Progress, Stack } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../api/client";
import { DataTable, type Columns } from "../../ui/DataTable";
import { duration, Money } from "../../ui/format";
import { Simulated } from "../../ui/simulated";

type Row = Schema["EarningsRow"];
export type By = "host" | "gpu" | "day";

/** Rows of a breakdown of earnings; names are those of hosts, by their identifiers. */
export function EarningsTable({ rows, by, names = {}, onOpen }: { rows: Row[]; by: By; names?: Record<string, string>; onOpen?: (r: Row) => void }) {
  const { t, i18n } = useTranslation();
  const day = (d: string) => new Intl.DateTimeFormat(i18n.language, { dateStyle: "medium", timeZone: "UTC" }).format(new Date(`${d}T00:00:00Z`));
  const host = (r: Row) => (r.host_id ? (names[r.host_id] ?? r.host_id) : "–");
  const sums = (of: "charged" | "commission" | "earned") => ({
    id: of,
    // Only to sort by; what is shown is the amount itself.
    accessorFn: (r: Row) => Number(r.sums?.[0]?.[of] ?? 0),
    header: t(`earn.${of}`),
    cell: ({ row }: { row: { original: Row } }) =>
      row.original.sums?.length ? (
        <Stack gap={0}>
          {row.original.sums.map((s) => (
            <Money key={s.currency} amount={s[of]} currency={s.currency} />
          ))}
        </Stack>
      ) : (
        "–"
      ),
  });
  const columns: Columns<Row> = [
    {
      id: "what",
      accessorFn: (r) => (by === "day" ? r.day : by === "gpu" ? r.gpu : host(r)) ?? "",
      header: t(`earn.${by}`),
      cell: ({ row: { original: r } }) => (
        <Group gap={6} wrap="nowrap">
          <span className="figure" title={r.gpu}>
            {by === "day" ? day(r.day ?? "") : by === "gpu" ? (r.gpu ? `${r.gpu.slice(0, 16)}…` : t("earn.no_gpu")) : host(r)}
          </span>
          <Simulated simulated={r.simulated} />
        </Group>
      ),
    },
    ...(by === "gpu"
      ? ([
          { id: "model", accessorFn: (r: Row) => r.gpu_model ?? "", header: t("host.gpu.model"), cell: ({ getValue }: { getValue: () => string }) => <span className="figure">{getValue() || "–"}</span> },
          { id: "host", accessorFn: host, header: t("earn.host"), cell: ({ getValue }: { getValue: () => string }) => <span className="figure">{getValue()}</span> },
        ] as Columns<Row>)
      : []),
    {
      id: "occupancy",
      accessorFn: (r) => r.occupancy_basis_points ?? -1,
      header: t("earn.occupancy"),
      cell: ({ row: { original: r } }) =>
        r.occupancy_basis_points === undefined ? (
          "–"
        ) : (
          <Group gap={6} wrap="nowrap">
            <Progress w={60} value={r.occupancy_basis_points / 100} aria-label={t("earn.occupancy")} />
            <span className="figure">{`${r.occupancy_basis_points / 100} %`}</span>
          </Group>
        ),
    },
    { id: "rented", accessorFn: (r) => r.rented_gpu_seconds, header: t("earn.rented"), cell: ({ row }) => <span className="figure">{duration(row.original.rented_gpu_seconds, i18n.language)}</span> },
    sums("charged"),
    sums("commission"),
    sums("earned"),
  ];
  return <DataTable label={t(`earn.by.${by}`)} rows={rows} columns={columns} rowKey={(r) => `${r.day ?? ""}/${r.host_id ?? ""}/${r.gpu ?? ""}/${r.simulated}`} height={560} onOpen={onOpen} />;
}
