import { Group, Paper, ScrollArea, Skeleton, Stack, Text, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { mib, Money } from "../../../ui/format";
import { Simulated } from "../../../ui/simulated";

type Offer = Schema["Offer"];

/** Offers, cheapest first, as one card for each model. */
function byModel(offers: Offer[]) {
  const cards = new Map<string, { cheapest: Offer; hosts: Map<string, number> }>();
  for (const o of offers) {
    const key = `${o.gpu_model}|${o.simulated}`;
    const card = cards.get(key) ?? { cheapest: o, hosts: new Map<string, number>() };
    card.hosts.set(o.host_id, Math.max(card.hosts.get(o.host_id) ?? 0, o.gpu_count));
    cards.set(key, card);
  }
  return [...cards].map(([key, c]) => ({ key, cheapest: c.cheapest, gpus: [...c.hosts.values()].reduce((a, b) => a + b, 0) }));
}

// What comes takes no more room than what it replaces.
const height = 110;

/** One card for each GPU model: what it costs from, and how many are free. */
export function ModelCards({ offers, more, model, choose }: { offers: Offer[] | undefined; more: boolean; model?: string; choose: (model: string | undefined) => void }) {
  const { t, i18n } = useTranslation();
  if (!offers) return <Skeleton h={height} role="status" aria-label={t("loading")} />;
  return (
    <ScrollArea mih={height} type="auto" offsetScrollbars="x" viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("market.models") }}>
      <Group wrap="nowrap" gap="sm">
        {byModel(offers).map(({ key, cheapest: o, gpus }) => (
          <UnstyledButton key={key} onClick={() => choose(model === o.gpu_model ? undefined : o.gpu_model)} aria-pressed={model === o.gpu_model} style={{ flexShrink: 0 }}>
            <Paper withBorder p="sm" miw={190} bd={model === o.gpu_model ? "2px solid var(--mantine-primary-color-filled)" : undefined}>
              <Stack gap={2}>
                <Group gap={6} wrap="nowrap" justify="space-between">
                  <Text fw={600}>{o.gpu_model || t("market.cpu_only")}</Text>
                  <Simulated simulated={o.simulated} />
                </Group>
                <Text size="sm" c="dimmed">{`${o.gpu_model ? mib(o.vram_mib, i18n.language) + " · " : ""}${t("market.free", { count: gpus, more: more ? "+" : "" })}`}</Text>
                <Text size="sm">
                  {t("market.from")} <Money amount={o.price.per_hour} currency={o.price.currency} per="hour" />
                </Text>
              </Stack>
            </Paper>
          </UnstyledButton>
        ))}
      </Group>
    </ScrollArea>
  );
}
