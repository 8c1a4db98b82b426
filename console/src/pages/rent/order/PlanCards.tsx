import { Group, Radio, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { Money } from "../../../ui/format";

export type Option = Schema["PlanOption"];
export const optionKey = (o: Pick<Option, "plan" | "term_months" | "payment">) => [o.plan, o.term_months, o.payment].filter(Boolean).join("-");

/** The plans of an offer side by side, each with its price and what is due at once. */
export function PlanCards({ comparison, value, choose }: { comparison: Schema["PlanComparison"] | undefined; value: string; choose: (o: Option) => void }) {
  const { t } = useTranslation();
  if (!comparison) return <Skeleton h={120} role="status" aria-label={t("loading")} />;
  const currency = comparison.currency;
  const options = comparison.options.filter((o) => o.plan === "spot" || (o.buyable && (o.plan === "on_demand" || o.plan === "monthly")));
  return (
    <Radio.Group value={value} onChange={(v) => choose(options.find((o) => optionKey(o) === v)!)} aria-label={t("order.plan")}>
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 3 }} spacing="sm">
        {options.map((o) => (
          <Radio.Card key={optionKey(o)} value={optionKey(o)} p="sm" radius="md">
            <Group wrap="nowrap" align="flex-start" gap="sm">
              <Radio.Indicator mt={3} />
              <Stack gap={2}>
                <Text fw={600}>{o.term_months ? t("order.term", { plan: t(`plan.${o.plan}`), count: o.term_months }) : t(`plan.${o.plan}`)}</Text>
                {o.plan === "spot" ? (
                  <Text size="sm" c="dimmed">
                    {t("order.spot")}
                  </Text>
                ) : (
                  <>
                    <Text size="sm">
                      {o.plan === "monthly" ? <Money amount={o.per_month} currency={currency} per="month" /> : <Money amount={o.per_hour} currency={currency} per="hour" />}
                    </Text>
                    <Text size="xs" c="dimmed">
                      {t("order.due_now")} <Money amount={o.due_now} currency={currency} />
                    </Text>
                  </>
                )}
              </Stack>
            </Group>
          </Radio.Card>
        ))}
      </SimpleGrid>
    </Radio.Group>
  );
}
