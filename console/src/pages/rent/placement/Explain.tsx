import { Alert, Badge, Button, Group, List, Paper, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { Copy } from "../../../ui/Copy";
import { ErrorPanel } from "../../../ui/errors";
import { mib } from "../../../ui/format";
import { Simulated } from "../../../ui/simulated";

/** What a placement is explained for; amounts are for one node. */
export type Placement = { nodes?: number; gpu_model?: string; gpus?: number; cpu_millis?: number; memory_mib?: number; disk_gib?: number; zone?: string; region?: string; within?: "region" | "zone" | "spine" | "leaf" | "rack"; simulated?: boolean };

type Change = Schema["PlacementChange"];

// One change of a request, where it is one that this question can have.
function changed(c: Change, any?: string): Placement | undefined {
  switch (c.field) {
    case "gpu":
      return { gpus: c.to };
    case "gang":
      return { nodes: c.to };
    case "cpu":
      return { cpu_millis: c.to };
    case "memory":
      return { memory_mib: c.to };
    case "disk":
      return c.to ? { disk_gib: Math.floor(c.to / 1024) } : undefined;
    case "gpu_model":
      return any ? { gpu_model: any } : undefined;
    case "zone":
      return any ? { zone: any } : undefined;
    case "region":
      return any ? { region: any } : undefined;
  }
}

/** Why nothing holds a request now, and the changes that would make it fit; those in fields are made by a press. */
export function Explain({ query, fields = [], apply, fits }: { query: Placement; fields?: Change["field"][]; apply?: (change: Placement) => void; fits?: (suitable: number) => string }) {
  const { t, i18n } = useTranslation();
  const found = useQuery({
    queryKey: ["placement", query],
    queryFn: async ({ signal }) => {
      const ask = (simulated: boolean) => data(api.GET("/v1/placement/explanation", { params: { query: { ...query, simulated } }, signal }));
      if (query.simulated !== undefined) return { ...(await ask(query.simulated)), simulated: query.simulated };
      // Who takes either: where no real GPU is on the market, the simulated ones are what is meant.
      const real = await ask(false);
      return real.hosts > 0 ? { ...real, simulated: false } : { ...(await ask(true)), simulated: true };
    },
    refetchInterval: 15_000,
    retry: false,
  });
  if (found.error) return <ErrorPanel error={found.error} retry={() => void found.refetch()} />;
  const e = found.data;
  if (!e) return <Skeleton h={160} role="status" aria-label={t("loading")} />;
  const amount = (of: string, n: number) => (of === "memory" || of === "disk" ? mib(n, i18n.language) : new Intl.NumberFormat(i18n.language).format(of === "cpu" ? n / 1000 : n));
  const figured = (of: string) => ["gpu", "cpu", "memory", "disk", "gang", "network", "ports", "held"].includes(of);
  return (
    <Paper withBorder p="md" component="section" w="100%" maw={720}>
      <Stack gap="sm">
        <Group gap="xs">
          <Title order={2} size="h5">
            {t(e.fits ? "placement.fits" : "placement.why")}
          </Title>
          <Simulated simulated={e.simulated} />
        </Group>
        <Text size="sm">{e.hosts === 0 ? t("placement.no_hosts") : e.fits ? (fits?.(e.suitable_hosts) ?? t("placement.fits.text", { suitable: e.suitable_hosts, hosts: e.hosts })) : t("placement.why.text", { suitable: e.suitable_hosts, hosts: e.hosts })}</Text>
        {e.refused.length > 0 && (
          <List size="sm" spacing={6}>
            {e.refused.map((r) => (
              <List.Item key={r.reason}>
                <Badge variant="light" color="gray" tt="none" mr={6}>
                  {t("placement.hosts", { count: r.hosts })}
                </Badge>
                {t(`placement.reason.${r.reason}`)}
                {figured(r.reason) && !!r.wanted && ` ${t("placement.figures", { wanted: amount(r.reason, r.wanted), most: amount(r.reason, r.most) })}`}
                {!!r.host_ids?.length && (
                  <Group gap="xs" mt={4}>
                    {r.host_ids.slice(0, 8).map((id) => (
                      <Copy key={id} text={id} />
                    ))}
                    {r.host_ids.length > 8 && <Text size="xs">{t("placement.more", { count: r.host_ids.length - 8 })}</Text>}
                  </Group>
                )}
              </List.Item>
            ))}
          </List>
        )}
        {e.changes.length > 0 && (
          <div>
            <Text size="sm" fw={500} mb={6}>
              {t("placement.changes")}
            </Text>
            <Group gap="xs">
              {e.changes.flatMap((c) =>
                (c.any?.length ? c.any : [undefined]).slice(0, 6).map((any) => {
                  const text = t(`placement.change.${c.field}`, { to: any ?? (c.to !== undefined ? amount(c.field, c.to) : "") });
                  const to = changed(c, any);
                  return apply && to && fields.includes(c.field) ? (
                    <Button key={`${c.field}${any ?? ""}`} size="xs" variant="default" onClick={() => apply(to)}>
                      {text}
                    </Button>
                  ) : (
                    <Badge key={`${c.field}${any ?? ""}`} variant="light" tt="none">
                      {text}
                    </Badge>
                  );
                }),
              )}
            </Group>
          </div>
        )}
        {!e.fits && e.changes.length === 0 && e.hosts > 0 && <Text size="sm">{t("placement.no_change")}</Text>}
        {!!e.on_host_ids?.length && (
          <Alert variant="light" title={t("placement.on")}>
            <Stack gap={4}>
              {e.on_host_ids.map((id) => (
                <Copy key={id} text={id} />
              ))}
            </Stack>
          </Alert>
        )}
      </Stack>
    </Paper>
  );
}
