import { Badge, Group, SegmentedControl, Text } from "@mantine/core";
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
import { colors } from "./reserve/search";

type Reservation = Schema["Reservation"];

/** GPUs that are held for the account for a term. */
export function Reservations() {
  const { t } = useTranslation();
  const { over } = useSearch({ strict: false }) as { over?: boolean };
  const navigate = useNavigate();
  const may = useMay("lease:write");
  const list = usePages<Reservation>(["reservations", over ?? false], (cursor, signal) => data(api.GET("/v1/reservations", { params: { query: { cursor, limit: 100, ...(!over && { open: true }) } }, signal })), { refetchInterval: 10_000 });
  const columns: Columns<Reservation> = [
    { id: "name", header: t("lease.name"), accessorFn: (r) => r.name, cell: ({ row: { original: r } }) => <Text size="sm" fw={600} maw={240} truncate>{r.name || r.id}</Text> },
    { id: "state", header: t("lease.state"), accessorFn: (r) => r.state, cell: ({ row: { original: r } }) => <Badge color={colors[r.state]} variant="light" tt="none">{t(`reserve.state.${r.state}`)}</Badge> },
    {
      id: "gpu",
      header: t("market.gpu"),
      accessorFn: (r) => r.gpu_model,
      cell: ({ row: { original: r } }) => (
        <Group gap={6} wrap="nowrap">
          <span>{`${r.gpus} × ${r.gpu_model}`}</span>
          <Simulated simulated={r.simulated} />
        </Group>
      ),
    },
    { id: "zone", header: t("market.zone"), accessorFn: (r) => r.zone, cell: ({ row }) => row.original.zone },
    { id: "price", header: t("reserve.per_gpu_hour"), cell: ({ row: { original: r } }) => <Money amount={r.per_gpu_hour} currency={r.currency} per="hour" /> },
    { id: "total", header: t("reserve.total"), cell: ({ row: { original: r } }) => <Money amount={r.total} currency={r.currency} /> },
    { id: "from", header: t("cost.from"), accessorFn: (r) => r.from, cell: ({ row }) => <Time at={row.original.from} /> },
    { id: "until", header: t("cost.to"), accessorFn: (r) => r.until, cell: ({ row }) => <Time at={row.original.until} /> },
    { id: "renews", header: t("reserve.renews"), cell: ({ row }) => t(row.original.renews ? "reserve.yes" : "reserve.no") },
  ];
  return (
    <Page
      title={t("reserve.title")}
      about={t("reserve.about")}
      actions={
        <>
          <SegmentedControl aria-label={t("leases.which")} value={over ? "all" : "live"} onChange={(v) => void navigate({ to: "/reservations", search: v === "all" ? { over: true } : {} })} data={[{ value: "live", label: t("reserve.open") }, { value: "all", label: t("leases.all") }]} />
          {may && <ButtonLink to="/reserve">{t("reserve.new")}</ButtonLink>}
        </>
      }
    >
      <PagedTable
        list={list}
        label={t("reserve.title")}
        columns={columns}
        rowKey={(r) => r.id}
        onOpen={(r) => void navigate({ to: "/reservations/$reservationId", params: { reservationId: r.id } })}
        empty={
          <Empty title={t("reserve.empty.title")} text={t("reserve.empty.text")}>
            {may && <ButtonLink to="/reserve">{t("reserve.new")}</ButtonLink>}
          </Empty>
        }
      />
    </Page>
  );
}
