import { NumberInput, Paper, Select, SimpleGrid, Switch, Text } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { Page } from "../../ui/Page";
import { Explain, type Placement } from "../rent/placement/Explain";
import { placementSearch, withins } from "./placement";

/** Where a request would go now, on which hosts it would not, and why. */
export function PlacementPage() {
  const { t } = useTranslation();
  const search = placementSearch(useSearch({ strict: false }));
  const navigate = useNavigate();
  const change = (part: Placement) => void navigate({ to: ".", search: { ...search, ...part } as never, replace: true, resetScroll: false });
  const later = useDebouncedCallback(change, 400);
  const models = useQuery({ queryKey: ["gpu-models"], queryFn: ({ signal }) => data(api.GET("/v1/gpu-models", { signal })), staleTime: 600_000 }).data;
  const regions = useQuery({ queryKey: ["regions"], queryFn: ({ signal }) => data(api.GET("/v1/regions", { signal })), staleTime: 600_000 }).data;
  const number = (name: "nodes" | "gpus" | "cpu_millis" | "memory_mib" | "disk_gib", label: string, unit: number, min: number, suffix?: string) => (
    <NumberInput label={label} suffix={suffix} min={min} allowDecimal={false} defaultValue={search[name] !== undefined ? search[name] / unit : ""} onChange={(v) => later({ [name]: v === "" ? undefined : Number(v) * unit })} />
  );
  return (
    <Page title={t("nav.op.placement")} about={t("op.placement.about")}>
      <Paper withBorder p="md" component="section" aria-label={t("op.placement.asked")}>
        {/* Fields that hold what was typed begin anew when an advice changes it. */}
        <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} key={JSON.stringify([search.nodes, search.gpus, search.cpu_millis, search.memory_mib, search.disk_gib])}>
          {number("nodes", t("cluster.nodes"), 1, 1)}
          {number("gpus", t("cluster.gpus"), 1, 0)}
          {number("cpu_millis", t("op.placement.cpus"), 1000, 0)}
          {number("memory_mib", t("op.placement.memory"), 1024, 0, " GiB")}
          {number("disk_gib", t("cluster.disk"), 1, 0, " GiB")}
          <Select label={t("market.model")} searchable clearable clearButtonProps={{ "aria-label": t("market.clear") }} placeholder={t("market.any")} value={search.gpu_model ?? null} onChange={(v) => change({ gpu_model: v ?? undefined })} data={[...new Set((models?.items ?? []).map((m) => m.name))]} />
          <Select label={t("host.region")} clearable clearButtonProps={{ "aria-label": t("market.clear") }} placeholder={t("market.any")} value={search.region ?? null} onChange={(v) => change({ region: v ?? undefined })} data={(regions?.items ?? []).map((r) => r.id)} />
          <Select label={t("market.zone")} clearable clearButtonProps={{ "aria-label": t("market.clear") }} placeholder={t("market.any")} value={search.zone ?? null} onChange={(v) => change({ zone: v ?? undefined })} data={[...new Set((regions?.items ?? []).flatMap((r) => (r.zones ?? []).map((z) => z.id)))]} />
          <Select label={t("op.placement.within")} clearable clearButtonProps={{ "aria-label": t("market.clear") }} placeholder={t("market.any")} value={search.within ?? null} onChange={(v) => change({ within: (v as Placement["within"]) ?? undefined })} data={withins.map((w) => ({ value: w, label: t(`op.placement.within.${w}`) }))} />
          <Switch mt={28} label={t("reserve.simulated")} checked={!!search.simulated} onChange={(e) => change({ simulated: e.currentTarget.checked || undefined })} />
        </SimpleGrid>
      </Paper>
      {!search.gpus && !search.cpu_millis && !search.memory_mib && !search.disk_gib ? (
        <Text c="dimmed">{t("op.placement.begin")}</Text>
      ) : (
        <Explain query={{ ...search, simulated: !!search.simulated }} fields={["gpu", "gang", "gpu_model", "zone", "region", "cpu", "memory", "disk"]} apply={change} />
      )}
    </Page>
  );
}
