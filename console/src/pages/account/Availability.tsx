import { Group } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { duration, Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { PagedTable } from "../../ui/PagedTable";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";
import { TextLink } from "../../ui/TextLink";

type Month = Schema["SLAMonth"];

/** Closed months of leases that had outages, with what came back for them. */
export function Availability() {
  const { t, i18n } = useTranslation();
  const list = usePages<Month>(["sla-months"], (cursor, signal) => data(api.GET("/v1/sla", { params: { query: { cursor, limit: 100 } }, signal })), { refetchInterval: 60_000 });
  const share = new Intl.NumberFormat(i18n.language, { style: "percent", maximumFractionDigits: 4 });
  const columns: Columns<Month> = [
    { id: "month", header: t("statement.month"), accessorFn: (m) => m.month, cell: ({ row }) => row.original.month },
    {
      id: "lease",
      header: t("cluster.lease"),
      accessorFn: (m) => m.lease_id,
      cell: ({ row: { original: m } }) => (
        <Group gap={6} wrap="nowrap">
          <TextLink to="/leases/$leaseId" params={{ leaseId: m.lease_id }} size="sm">
            {m.lease_id}
          </TextLink>
          <Simulated simulated={m.simulated} />
        </Group>
      ),
    },
    { id: "availability", header: t("op.sla.availability"), accessorFn: (m) => m.availability_ppm, cell: ({ row }) => <span className="figure">{share.format(row.original.availability_ppm / 1_000_000)}</span> },
    { id: "down", header: t("op.sla.down"), accessorFn: (m) => m.down_seconds, cell: ({ row }) => <span className="figure">{duration(row.original.down_seconds, i18n.language)}</span> },
    { id: "credit", header: t("op.sla.credit"), cell: ({ row: { original: m } }) => <Money amount={m.credit} currency={m.currency} /> },
    { id: "closed", header: t("op.sla.closed"), accessorFn: (m) => m.closed_at, cell: ({ row }) => <Time at={row.original.closed_at} /> },
  ];
  return (
    <Page title={t("nav.sla")} about={t("sla.about")}>
      <PagedTable list={list} label={t("nav.sla")} columns={columns} rowKey={(m) => `${m.lease_id}${m.month}`} empty={<Empty title={t("sla.empty.title")} text={t("sla.empty.text")} />} />
    </Page>
  );
}
