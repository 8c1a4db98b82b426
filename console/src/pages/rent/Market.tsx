import { Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { mib, Money } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";

type Offer = Schema["Offer"];

/** What can be rented now. */
export function Market() {
  const { t, i18n } = useTranslation();
  const offers = usePages<Offer>(["offers"], (cursor, signal) => data(api.GET("/v1/offers", { params: { query: { cursor, limit: 200 } }, signal })), { refetchInterval: 10_000 });
  const columns: Columns<Offer> = [
    {
      id: "gpu",
      header: t("market.gpu"),
      cell: ({ row: { original: o } }) => (
        <Group gap={6} wrap="nowrap">
          <Text fw={600}>{`${o.gpu_count} × ${o.gpu_model}`}</Text>
          <Simulated simulated={o.simulated} />
        </Group>
      ),
    },
    { id: "vram", header: t("market.vram"), cell: ({ row }) => <span className="figure">{mib(row.original.vram_mib, i18n.language)}</span> },
    { id: "zone", header: t("market.zone"), cell: ({ row }) => `${row.original.region} / ${row.original.zone}` },
    { id: "price", header: t("market.price"), cell: ({ row }) => <Money amount={row.original.price.per_hour} currency={row.original.price.currency} per="hour" /> },
  ];
  return (
    <Page title={t("market.title")} about={t("market.about")}>
      {offers.error ? (
        <ErrorPanel error={offers.error} retry={offers.retry} />
      ) : !offers.first && offers.rows.length === 0 ? (
        <Empty title={t("market.empty.title")} text={t("market.empty.text")} />
      ) : (
        <DataTable label={t("market.title")} rows={offers.rows} columns={columns} rowKey={(o) => o.id} more={offers.more} loading={offers.first || offers.loading} />
      )}
    </Page>
  );
}
