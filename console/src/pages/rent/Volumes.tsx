import { Group, SegmentedControl, Text } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { PagedTable } from "../../ui/PagedTable";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";
import { Create } from "./volumes/Create";
import { VolumeState } from "./volumes/State";

type Volume = Schema["Volume"];

/** Disks of the account's that outlive leases. */
export function Volumes() {
  const { t } = useTranslation();
  const { over } = useSearch({ strict: false }) as { over?: boolean };
  const navigate = useNavigate();
  const may = useMay("lease:write");
  const list = usePages<Volume>(["volumes", over ?? false], (cursor, signal) => data(api.GET("/v1/volumes", { params: { query: { cursor, limit: 100, ...(!over && { open: true }) } }, signal })), { refetchInterval: 5_000 });
  const columns: Columns<Volume> = [
    { id: "name", header: t("lease.name"), accessorFn: (v) => v.name, cell: ({ row: { original: v } }) => <Text size="sm" fw={600} maw={240} truncate>{v.name}</Text> },
    { id: "state", header: t("lease.state"), accessorFn: (v) => v.state, cell: ({ row }) => <VolumeState state={row.original.state} /> },
    { id: "size", header: t("volume.size"), accessorFn: (v) => v.size_gib, cell: ({ row }) => <span className="figure">{`${row.original.size_gib} GiB`}</span> },
    { id: "price", header: t("volume.per_gib"), cell: ({ row: { original: v } }) => <Money amount={v.price_per_gib_month} currency={v.currency} per="month" /> },
    { id: "whole", header: t("volume.whole"), cell: ({ row: { original: v } }) => <Money amount={v.per_month} currency={v.currency} per="month" /> },
    { id: "used", header: t("volume.used"), accessorFn: (v) => v.attachments.length, cell: ({ row: { original: v } }) => (v.attachments.length ? t("volume.leases", { count: v.attachments.length }) : t("volume.unused")) },
    {
      id: "zone",
      header: t("market.zone"),
      accessorFn: (v) => `${v.region} / ${v.zone}`,
      cell: ({ row: { original: v } }) => (
        <Group gap={6} wrap="nowrap">
          <span>{`${v.region} / ${v.zone}`}</span>
          <Simulated simulated={v.simulated} />
        </Group>
      ),
    },
    { id: "created", header: t("lease.since"), accessorFn: (v) => v.created_at, cell: ({ row }) => <Time at={row.original.created_at} relative /> },
  ];
  return (
    <Page
      title={t("nav.volumes")}
      about={t("volume.about")}
      actions={
        <>
          <SegmentedControl aria-label={t("volume.which")} value={over ? "all" : "live"} onChange={(v) => void navigate({ to: "/volumes", search: v === "all" ? { over: true } : {} })} data={[{ value: "live", label: t("volume.open") }, { value: "all", label: t("leases.all") }]} />
          {may && <Create />}
        </>
      }
    >
      <PagedTable
        list={list}
        label={t("nav.volumes")}
        columns={columns}
        rowKey={(v) => v.id}
        onOpen={(v) => void navigate({ to: "/volumes/$volumeId", params: { volumeId: v.id } })}
        empty={<Empty title={t("volume.empty.title")} text={t("volume.empty.text")} />}
      />
    </Page>
  );
}
