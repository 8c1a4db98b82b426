import { Paper, Progress, ScrollArea, Table, Text, Title, VisuallyHidden } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { money } from "../../../ui/format";

/** How many GPUs are bid for, and let, at each price. */
export function Depth({ market }: { market: Schema["SpotMarket"] }) {
  const { t, i18n } = useTranslation();
  const most = Math.max(1, ...market.depth.map((l) => Math.max(l.demand_gpus, l.supply_gpus)));
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("spot.depth")}
      </Title>
      {market.depth.length === 0 ? (
        <Text c="dimmed">{t("spot.no_depth")}</Text>
      ) : (
        <ScrollArea.Autosize mah={260} type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("spot.depth") }}>
          <Table verticalSpacing={4}>
            <caption>
              <VisuallyHidden>{t("spot.depth")}</VisuallyHidden>
            </caption>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("spot.level")}</Table.Th>
                <Table.Th w="30%">{t("spot.demand")}</Table.Th>
                <Table.Th w="30%">{t("spot.supply")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {market.depth.map((l) => (
                <Table.Tr key={l.price_per_gpu_hour}>
                  <Table.Td className="figure">{money(l.price_per_gpu_hour, market.currency, i18n.language)}</Table.Td>
                  <Table.Td>
                    <Text size="xs">{l.demand_gpus}</Text>
                    <Progress value={(l.demand_gpus / most) * 100} size="xs" color="suanli" aria-label={t("spot.demand")} />
                  </Table.Td>
                  <Table.Td>
                    <Text size="xs">{l.supply_gpus}</Text>
                    <Progress value={(l.supply_gpus / most) * 100} size="xs" color="gray" aria-label={t("spot.supply")} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </ScrollArea.Autosize>
      )}
    </Paper>
  );
}
