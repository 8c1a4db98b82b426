import { Badge, Group, Paper, SimpleGrid, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { Copy } from "../../../ui/Copy";
import { mib, Money, Time } from "../../../ui/format";
import { useBill } from "./Cost";

/** A lease in figures: what it is, does and costs. */
export function Facts({ lease: l }: { lease: Schema["Lease"] }) {
  const { t, i18n } = useTranslation();
  const bill = useBill(l).data;
  const bytes = (n: number) => mib(n / 1048576, i18n.language);
  const facts: [string, ReactNode][] = [
    ["cost.so_far", bill ? <Money amount={bill.total} currency={bill.currency} /> : "–"],
    ["cost.now", bill ? <Money amount={bill.price_per_hour_by_state[l.state] ?? "0"} currency={bill.currency} per="hour" /> : <Money amount={l.per_hour} currency={l.currency} per="hour" />],
    ["lease.running_since", l.running_since && l.state === "running" ? <Time at={l.running_since} relative /> : "–"],
    ["lease.stop_at", l.stop_at ? <Time at={l.stop_at} relative /> : t("order.never")],
    ["lease.gpu_use", l.usage && l.gpu_count > 0 ? `${l.usage.gpu_percent} %` : "–"],
    ["lease.cpu_use", l.usage ? `${l.usage.cpu_percent} %` : "–"],
    ["lease.memory_use", l.usage ? `${mib(l.usage.memory_used_mib, i18n.language)} / ${mib(l.memory_mib, i18n.language)}` : mib(l.memory_mib, i18n.language)],
    ["lease.disk_use", l.usage ? `${mib(l.usage.disk_used_mib, i18n.language)} / ${l.disk_gib} GiB` : `${l.disk_gib} GiB`],
    ["lease.traffic", l.usage ? `↑ ${bytes(l.usage.egress_bytes)} ↓ ${bytes(l.usage.ingress_bytes)}` : "–"],
    ["lease.sessions", l.usage ? l.usage.sessions : "–"],
    ["market.zone", `${l.region} / ${l.zone}`],
    ["market.plan", t(`plan.${l.plan}`)],
  ];
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("lease.facts")}
      </Title>
      <SimpleGrid cols={{ base: 2, sm: 3, xl: 4 }} spacing="sm" component="dl" m={0}>
        {facts.map(([key, value]) => (
          <div key={key}>
            <Text size="xs" c="dimmed" component="dt">
              {t(key)}
            </Text>
            <Text size="sm" fw={500} component="dd" m={0} className="figure" style={{ whiteSpace: "normal" }}>
              {value}
            </Text>
          </div>
        ))}
      </SimpleGrid>
      <Group gap="xs" mt="md">
        <Copy text={l.id} />
        <Copy text={l.image} />
        {Object.entries(l.labels ?? {}).map(([k, v]) => (
          <Badge key={k} variant="light" color="gray" tt="none">
            {v ? `${k}=${v}` : k}
          </Badge>
        ))}
      </Group>
    </Paper>
  );
}
