import { Code, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { duration, Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";
import { PagedTable } from "../../ui/PagedTable";

type Row = Schema["Demand"];

/** What was rented and for how long, without who rented it; the simulator replays it. */
export function Demand() {
  const { t, i18n } = useTranslation();
  const list = usePages<Row>(["operator", "demand"], (cursor, signal) => data(api.GET("/v1/operator/demand", { params: { query: { cursor, limit: 200 } }, signal })), { refetchInterval: 30_000 });
  const columns: Columns<Row> = [
    {
      id: "gpu",
      accessorFn: (d) => `${d.gpus} × ${d.model}`,
      header: t("market.gpu"),
      cell: ({ row: { original: d } }) => (
        <Group gap={6} wrap="nowrap">
          <Text fw={600} size="sm" className="figure">
            {d.gpus ? `${d.gpus} × ${d.model}` : t("host.no_gpus")}
          </Text>
          <Simulated simulated={d.simulated} />
        </Group>
      ),
    },
    { id: "plan", accessorFn: (d) => d.plan, header: t("op.demand.plan"), cell: ({ row }) => row.original.plan },
    { id: "price", accessorFn: (d) => Number(d.price_per_hour), header: t("market.price"), cell: ({ row: { original: d } }) => <Money amount={d.price_per_hour} currency={d.currency} per="hour" /> },
    { id: "submitted", accessorFn: (d) => d.submitted, header: t("op.demand.submitted"), cell: ({ row }) => <Time at={row.original.submitted} /> },
    { id: "start", accessorFn: (d) => d.start ?? "", header: t("op.demand.start"), cell: ({ row }) => (row.original.start ? <Time at={row.original.start} /> : t("op.demand.never")) },
    { id: "ran", accessorFn: (d) => d.ran_seconds, header: t("op.demand.ran"), cell: ({ row }) => <span className="figure">{duration(row.original.ran_seconds, i18n.language)}</span> },
    { id: "end", accessorFn: (d) => d.end ?? "", header: t("op.demand.end"), cell: ({ row }) => (row.original.end ? <Time at={row.original.end} /> : t("op.demand.goes_on")) },
  ];
  return (
    <Page title={t("nav.op.demand")} about={t("op.demand.about")}>
      <Text size="sm" component="div">
        {t("op.demand.simulator")} <Code>suanli sim export</Code> <Code>suanli sim run</Code> (docs/simulate.md)
      </Text>
      <PagedTable list={list} empty={<Empty title={t("op.demand.empty.title")} text={t("op.demand.empty.text")} />} label={t("nav.op.demand")} columns={columns} rowKey={(d) => d.id} />
    </Page>
  );
}
