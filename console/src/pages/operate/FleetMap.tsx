import { Badge, Group, Paper, SegmentedControl, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useUrlText } from "../../ui/urlstate";
import { hottest, modelsOf, needsCare, quarantined, gpusOf, rentedGPUs, type Host } from "../host/hosts";
import classes from "./FleetMap.module.css";

type By = "rented" | "temperature" | "health";

// How strongly a host is coloured, 0 to 4; undefined: there is nothing to say.
function level(h: Host, by: By): number | undefined {
  if (by === "health") return needsCare(h.state) ? 4 : gpusOf(h).some(quarantined) ? 3 : h.state === "listed" ? 0 : 1;
  if (by === "temperature") {
    const c = hottest(h);
    return c === undefined ? undefined : c < 50 ? 0 : c < 65 ? 1 : c < 75 ? 2 : c < 85 ? 3 : 4;
  }
  return h.total.gpus ? Math.round((rentedGPUs(h) * 4) / h.total.gpus) : undefined;
}

const group = (hosts: Host[], of: (h: Host) => string) => {
  const groups = new Map<string, Host[]>();
  for (const h of hosts) groups.set(of(h), [...(groups.get(of(h)) ?? []), h]);
  return [...groups].sort(([a], [b]) => a.localeCompare(b));
};

/** All hosts at their places, coloured by how they are; each leads to its page. */
export function FleetMap({ hosts, loading }: { hosts: Host[]; loading?: boolean }) {
  const { t } = useTranslation();
  const [by, setBy] = useUrlText("map", "rented");
  if (loading) return <Skeleton height={180} />;
  if (hosts.length === 0) return <Text c="dimmed">{t("op.map.none")}</Text>;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <SegmentedControl aria-label={t("op.map.by")} value={by} onChange={setBy} data={(["rented", "temperature", "health"] as const).map((value) => ({ value, label: t(`op.map.${value}`) }))} />
        <Legend by={by as By} />
      </Group>
      {group(hosts, (h) => h.region).map(([region, inRegion]) => (
        <Paper key={region} withBorder p="sm">
          <Group gap="xs" mb="xs">
            <Text fw={600}>{region}</Text>
            <Badge variant="light" tt="none">
              {t("op.map.hosts", { count: inRegion.length })}
            </Badge>
          </Group>
          <SimpleGrid cols={{ base: 1, md: 2, xl: 3 }}>
            {group(inRegion, (h) => h.zone).map(([zone, inZone]) => (
              <div key={zone}>
                <Text size="sm" c="dimmed">
                  {zone}
                </Text>
                {group(inZone, (h) => h.rack ?? "").map(([rack, inRack]) => (
                  <Rack key={rack} name={rack} hosts={inRack} by={by as By} />
                ))}
              </div>
            ))}
          </SimpleGrid>
        </Paper>
      ))}
    </Stack>
  );
}

function Rack({ name, hosts, by }: { name: string; hosts: Host[]; by: By }) {
  const { t } = useTranslation();
  return (
    <div className={classes.rack}>
      {name && <Text size="xs">{t("op.map.rack", { name })}</Text>}
      <ul className={classes.hosts}>
        {hosts.map((h) => {
          const words = [h.name, t(`host.state.${h.state}`), modelsOf(h), t("op.map.rented_of", { rented: rentedGPUs(h), of: h.total.gpus }), hottest(h) === undefined ? "" : `${hottest(h)} °C`, h.simulated ? "simulated" : "", h.reason ?? ""].filter(Boolean).join(" · ");
          return (
            <li key={h.id}>
              <Link to="/hosts/$hostId" params={{ hostId: h.id }} className={classes.host} data-by={by} data-level={level(h, by) ?? "none"} title={words} aria-label={words} preload={false} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Legend({ by }: { by: By }) {
  const { t } = useTranslation();
  const names = by === "rented" ? ["0 %", "25 %", "50 %", "75 %", "100 %"] : by === "temperature" ? ["< 50 °C", "< 65 °C", "< 75 °C", "< 85 °C", "≥ 85 °C"] : [t("host.state.listed"), t("op.map.aside"), "", t("op.count.quarantined"), t("host.count.care")];
  return (
    <Group gap="xs">
      {names.map(
        (name, i) =>
          name && (
            <Group key={name} gap={4} wrap="nowrap">
              <span className={classes.host} data-by={by} data-level={i} aria-hidden />
              <Text size="xs">{name}</Text>
            </Group>
          ),
      )}
    </Group>
  );
}
