import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { Money } from "../../../ui/format";
import type { MarketPlan } from "./filters";

type Props = { offer: Schema["Offer"]; plan: MarketPlan; template: string | undefined; markets: Schema["SpotMarket"][] | undefined };

/** What an offer costs under the plan that was chosen. */
export function PlanPrice({ offer, plan, template, markets }: Props) {
  if (plan === "monthly") return <Monthly offer={offer} template={template} />;
  if (plan === "spot") return <Spot offer={offer} markets={markets} />;
  return <Money amount={offer.price.per_hour} currency={offer.price.currency} per="hour" />;
}

// Months have terms and reductions that only a quote knows.
function Monthly({ offer, template }: { offer: Schema["Offer"]; template: string | undefined }) {
  const { t } = useTranslation();
  const compared = useQuery({
    queryKey: ["compare", offer.id, offer.price.per_hour, template],
    queryFn: ({ signal }) => data(api.POST("/v1/quotes/compare", { body: { offer_id: offer.id, template, disk_gib: offer.disk_gib }, signal })),
    enabled: !!template,
    staleTime: 300_000,
    retry: false,
  });
  if (compared.isPending && template) return <Skeleton h={18} w={110} />;
  const months = compared.data?.options.filter((o) => o.plan === "monthly" && o.buyable);
  const month = months?.find((o) => o.term_months === 1) ?? months?.[0];
  if (!month) return <Text size="sm" c="dimmed">{t("market.not_offered")}</Text>;
  return <Money amount={month.per_month} currency={compared.data!.currency} per="month" />;
}

function Spot({ offer, markets }: { offer: Schema["Offer"]; markets: Schema["SpotMarket"][] | undefined }) {
  const { t } = useTranslation();
  if (!markets) return <Skeleton h={18} w={110} />;
  const good = markets.find((m) => m.zone === offer.zone && m.gpu_model === offer.gpu_model && m.simulated === offer.simulated)?.goods.find((g) => g.gpus === offer.gpu_count);
  if (!good || /^[0.]*$/.test(good.ask_per_gpu_hour)) return <Text size="sm" c="dimmed">{t("market.not_offered")}</Text>;
  return (
    <Stack gap={0}>
      <Money amount={good.ask_per_gpu_hour} currency={offer.price.currency} per="hour" />
      <Text size="xs" c="dimmed">{t("market.each_gpu")}</Text>
    </Stack>
  );
}
