import { Skeleton, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { ErrorPanel } from "../../ui/errors";
import { Money } from "../../ui/format";
import type { Host } from "./hosts";

/** The price of a host's GPU beside what others ask for the same model. */
export function Comparison({ host, model, fixed, floor, currency }: { host: Host; model: string; fixed?: string; floor?: string; currency: string }) {
  const { t } = useTranslation();
  const count = Math.max(1, host.listing.min_gpus ?? 1);
  const offers = useQuery({
    queryKey: ["offers", "compared", model, count],
    queryFn: ({ signal }) =>
      data(api.GET("/v1/offers", { params: { query: { where: `gpu_model = ${JSON.stringify(model)} and gpu_count = ${count}`, sort: "compute_price_per_hour", limit: 200 } }, signal })),
    refetchInterval: 30_000,
  });
  const spot = useQuery({
    queryKey: ["market", host.zone, model],
    queryFn: ({ signal }) => data(api.GET("/v1/market", { params: { query: { zone: host.zone, gpu_model: model } }, signal })),
    refetchInterval: 30_000,
  });
  if (offers.error) return <ErrorPanel error={offers.error} retry={() => void offers.refetch()} />;
  if (offers.isPending) return <Skeleton height={180} />;
  // The server sorted them: the middle is the median.
  const all = offers.data.items ?? [];
  const others = all.filter((o) => o.host_id !== host.id);
  const own = all.find((o) => o.host_id === host.id);
  const place = own ? all.indexOf(own) + 1 : 0;
  const good = spot.data?.items?.[0]?.goods?.find((g) => g.gpus === count) ?? spot.data?.items?.[0]?.goods?.[0];
  const price = (o?: (typeof all)[number]) => (o ? <Money amount={o.price.compute_per_hour} currency={o.price.currency} per="hour" /> : "–");
  const rows: [string, ReactNode][] = [
    [t("price.yours", { n: count }), own ? price(own) : fixed ? <Money amount={fixed} currency={currency} per="hour" /> : t("price.default")],
    [t("price.cheapest"), price(others[0])],
    [t("price.median"), price(others[Math.floor((others.length - 1) / 2)])],
    [t("price.dearest"), price(others.at(-1))],
    [t("price.floor"), floor ? <Money amount={floor} currency={currency} per="hour" /> : t("price.by_rule")],
    [t("price.spot_now"), good && !/^0(\.0*)?$/.test(good.price_per_gpu_hour) ? <Money amount={good.price_per_gpu_hour} currency={spot.data?.items?.[0]?.currency ?? currency} per="hour" /> : t("price.spot_none")],
  ];
  return (
    <>
      <Table verticalSpacing={4}>
        <Table.Tbody>
          {rows.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th fw={400}>{name}</Table.Th>
              <Table.Td ta="right" fw={600}>
                {value}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" c="dimmed" mt="xs">
        {others.length === 0 ? t("price.alone") : own ? t("price.place", { place, of: all.length }) : t("price.not_offered", { of: others.length })}
      </Text>
    </>
  );
}
