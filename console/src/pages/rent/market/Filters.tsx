import { Button, Chip, Group, NumberInput, Paper, Select, Skeleton, Stack, Switch, Text } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconFilterOff } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data } from "../../../api/client";
import type { MarketSearch } from "./filters";

/** What narrows the market; each change is in the address at once. */
export function Filters({ search, change, currency }: { search: MarketSearch; change: (part: Partial<MarketSearch>) => void; currency: string }) {
  const { t, i18n } = useTranslation();
  const models = useQuery({ queryKey: ["gpu-models"], queryFn: ({ signal }) => data(api.GET("/v1/gpu-models", { signal })), staleTime: 600_000 }).data;
  const regions = useQuery({ queryKey: ["regions"], queryFn: ({ signal }) => data(api.GET("/v1/regions", { signal })), staleTime: 600_000 }).data;
  const zones = (regions?.items ?? []).flatMap((r) => (r.zones ?? []).map((z) => ({ id: z.id, name: (i18n.language === "zh-CN" && z.name_zh) || z.name })));
  const [max, setMax] = useState<string | number>(search.max ?? "");
  useEffect(() => setMax(search.max ?? ""), [search.max]);
  const commit = useDebouncedCallback((v: string | number) => change({ max: v === "" ? undefined : String(v) }), 400);
  const any = Object.keys(search).some((k) => !["plan", "sort", "compare", "template"].includes(k));
  return (
    <Paper withBorder p="md" component="section" aria-label={t("market.filters")}>
      <Stack gap="sm">
        <Group align="flex-end" gap="md">
          <Select
            label={t("market.model")}
            placeholder={t("market.any")}
            searchable
            clearable
            clearButtonProps={{ "aria-label": t("market.clear") }}
            w={210}
            value={search.model ?? null}
            onChange={(v) => change({ model: v ?? undefined })}
            data={[...new Set((models?.items ?? []).map((m) => m.name))]}
          />
          <NumberInput label={t("market.max_price", { currency })} placeholder={t("market.any")} min={0} decimalScale={6} allowNegative={false} w={170} value={max} onChange={(v) => (setMax(v), commit(v))} hideControls />
          <Select
            label={t("market.vram_least")}
            placeholder={t("market.any")}
            clearable
            clearButtonProps={{ "aria-label": t("market.clear") }}
            w={150}
            value={search.vram ? String(search.vram) : null}
            onChange={(v) => change({ vram: v ? Number(v) : undefined })}
            data={["8", "12", "16", "24", "32", "40", "48", "80", "96", "141", "192"].map((v) => ({ value: v, label: `${v} GB` }))}
          />
          <Select
            label={t("market.reliability_least")}
            placeholder={t("market.any")}
            clearable
            clearButtonProps={{ "aria-label": t("market.clear") }}
            w={150}
            value={search.reliability ? String(search.reliability) : null}
            onChange={(v) => change({ reliability: v ? Number(v) : undefined })}
            data={["90", "95", "99"].map((v) => ({ value: v, label: `${v} %` }))}
          />
          <Switch label="NVLink" checked={!!search.nvlink} onChange={(e) => change({ nvlink: e.currentTarget.checked || undefined })} pb={8} />
          <Switch label={t("market.real_only")} checked={!!search.real} onChange={(e) => change({ real: e.currentTarget.checked || undefined })} pb={8} />
        </Group>
        <Group gap="lg">
          <Group gap="xs" role="group" aria-label={t("market.count")}>
            <Text size="sm" fw={500}>
              {t("market.count")}
            </Text>
            <Chip.Group value={search.count ? String(search.count) : ""} onChange={(v) => change({ count: v ? Number(v) : undefined })}>
              {["", "1", "2", "4", "8"].map((v) => (
                <Chip key={v} value={v} size="sm">
                  {v || t("market.any")}
                </Chip>
              ))}
            </Chip.Group>
          </Group>
          {!regions && <Skeleton h={26} w={180} />}
          {zones.length > 0 && (
            <Group gap="xs" role="group" aria-label={t("market.zones")}>
              <Text size="sm" fw={500}>
                {t("market.zones")}
              </Text>
              <Chip.Group multiple value={search.zones ?? []} onChange={(v) => change({ zones: v.length ? v : undefined })}>
                {zones.map((z) => (
                  <Chip key={z.id} value={z.id} size="sm">
                    {z.name}
                  </Chip>
                ))}
              </Chip.Group>
            </Group>
          )}
          {any && (
            <Button
              size="compact-sm"
              variant="subtle"
              leftSection={<IconFilterOff size={14} />}
              onClick={() => change({ model: undefined, count: undefined, vram: undefined, zones: undefined, max: undefined, reliability: undefined, nvlink: undefined, real: undefined })}
            >
              {t("market.reset")}
            </Button>
          )}
        </Group>
      </Stack>
    </Paper>
  );
}
