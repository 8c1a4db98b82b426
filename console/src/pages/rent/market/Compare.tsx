import { Button, Modal, ScrollArea, Table, VisuallyHidden } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { ButtonLink } from "../../../ui/ButtonLink";
import { mib, Money } from "../../../ui/format";
import { Simulated } from "../../../ui/simulated";
import { PlanPrice } from "./PlanPrice";

type Props = { ids: string[]; opened: boolean; close: () => void; remove: (id: string) => void; template: string | undefined; markets: Schema["SpotMarket"][] | undefined };

/** Up to four offers side by side. */
export function Compare({ ids, opened, close, remove, template, markets }: Props) {
  const { t, i18n } = useTranslation();
  const answers = useQueries({ queries: ids.map((id) => ({ queryKey: ["offer", id], queryFn: () => data(api.GET("/v1/offers/{offer_id}", { params: { path: { offer_id: id } } })), enabled: opened, retry: false })) });
  const n = (v: number | undefined, unit: string) => (v ? `${new Intl.NumberFormat(i18n.language).format(v)} ${unit}` : "–");
  const rows: [string, (o: Schema["Offer"]) => ReactNode][] = [
    ["plan.on_demand", (o) => <PlanPrice offer={o} plan="on_demand" template={template} markets={markets} />],
    ["plan.monthly", (o) => <PlanPrice offer={o} plan="monthly" template={template} markets={markets} />],
    ["plan.spot", (o) => <PlanPrice offer={o} plan="spot" template={template} markets={markets} />],
    ["market.egress", (o) => <><Money amount={o.price.egress_rate} currency={o.price.currency} /> / GB</>],
    ["market.vram", (o) => (o.vram_mib ? mib(o.vram_mib, i18n.language) : "–")],
    ["market.tflops", (o) => (o.fp16_tflops ? `${o.fp16_tflops} TFLOPS` : "–")],
    ["market.bandwidth", (o) => n(o.vram_bandwidth_gbs, "GB/s")],
    ["market.nvlink", (o) => t(o.nvlink ? "yes" : "no")],
    ["market.cuda", (o) => o.max_cuda ?? "–"],
    ["market.cpu", (o) => `${o.cpu_millis / 1000} × ${o.cpu_model ?? o.cpu_architecture}`],
    ["market.memory", (o) => mib(o.memory_mib, i18n.language)],
    ["market.disk", (o) => n(o.max_disk_gib, "GiB")],
    ["market.disk_speed", (o) => `${n(o.disk_read_mbps, "MB/s")} / ${n(o.disk_write_mbps, "MB/s")}`],
    ["market.network", (o) => `${n(o.net_down_mbps, "Mbit/s")} / ${n(o.net_up_mbps, "Mbit/s")}`],
    ["market.reliability", (o) => (o.reliability_percent ? `${o.reliability_percent} %` : "–")],
    ["market.zone", (o) => `${o.region} / ${o.zone}`],
    ["market.host", (o) => o.host_name],
  ];
  return (
    <Modal opened={opened} onClose={close} size="auto" title={t("market.compare")} closeButtonProps={{ "aria-label": t("action.close") }}>
      <ScrollArea type="auto" viewportProps={{ tabIndex: 0 }}>
        <Table withColumnBorders verticalSpacing="xs">
          <caption>
            <VisuallyHidden>{t("market.compare")}</VisuallyHidden>
          </caption>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>
                <VisuallyHidden>{t("market.property")}</VisuallyHidden>
              </Table.Th>
              {answers.map((a, i) => (
                <Table.Th key={ids[i]} miw={170}>
                  {a.data ? `${a.data.gpu_count} × ${a.data.gpu_model}` : a.error ? t("market.gone") : "…"} <Simulated simulated={a.data?.simulated} />
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(([key, of]) => (
              <Table.Tr key={key}>
                <Table.Th scope="row">{t(key)}</Table.Th>
                {answers.map((a, i) => (
                  <Table.Td key={ids[i]}>{a.data ? of(a.data) : "–"}</Table.Td>
                ))}
              </Table.Tr>
            ))}
            <Table.Tr>
              <Table.Th scope="row">
                <VisuallyHidden>{t("market.actions")}</VisuallyHidden>
              </Table.Th>
              {answers.map((a, i) => (
                <Table.Td key={ids[i]}>
                  {a.data && (
                    <ButtonLink to="/rent/$offerId" params={{ offerId: ids[i]! }} search={template ? { template } : {}} size="xs" mb={4} fullWidth>
                      {t("market.rent")}
                    </ButtonLink>
                  )}
                  <Button size="xs" variant="default" fullWidth onClick={() => remove(ids[i]!)}>
                    {t("market.remove")}
                  </Button>
                </Table.Td>
              ))}
            </Table.Tr>
          </Table.Tbody>
        </Table>
      </ScrollArea>
    </Modal>
  );
}
