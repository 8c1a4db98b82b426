import { Skeleton, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { Page } from "../../ui/Page";
import { useUrlText } from "../../ui/urlstate";

type Template = Schema["Template"];
type Model = Schema["GPUModel"];

/** What the cloud knows: templates, and models of GPUs with their data sheets. */
export function Catalog() {
  const { t } = useTranslation();
  const [tab, setTab] = useUrlText("tab", "templates");
  return (
    <Page title={t("nav.op.catalog")} about={t("op.catalog.about")}>
      <Tabs value={tab} onChange={(v) => setTab(v ?? "templates")} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="templates">{t("op.catalog.templates")}</Tabs.Tab>
          <Tabs.Tab value="models">{t("op.catalog.models")}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="templates">
          <Templates />
        </Tabs.Panel>
        <Tabs.Panel value="models">
          <Models />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function Templates() {
  const { t, i18n } = useTranslation();
  const list = useQuery({ queryKey: ["templates"], queryFn: ({ signal }) => data(api.GET("/v1/templates", { signal })), staleTime: 60_000 });
  const zh = i18n.language === "zh-CN";
  const needs = (n: Template["needs"]) =>
    [n.gpus && `${n.gpus} × GPU`, n.vram_gib && t("op.catalog.vram", { gib: n.vram_gib }), n.memory_gib && t("op.catalog.memory", { gib: n.memory_gib }), n.cuda && `CUDA ${n.cuda}`].filter(Boolean).join(", ") || "–";
  const columns: Columns<Template> = [
    { id: "title", accessorFn: (x) => (zh && x.title_zh) || x.title, header: t("op.catalog.title"), cell: ({ getValue }) => <Text fw={600} size="sm">{getValue() as string}</Text> },
    { id: "name", accessorFn: (x) => x.name, header: t("op.catalog.name"), cell: ({ row }) => <code>{row.original.name}</code> },
    { id: "scenario", accessorFn: (x) => x.scenario, header: t("op.catalog.scenario"), cell: ({ row }) => row.original.scenario },
    { id: "image", accessorFn: (x) => x.image, header: t("op.catalog.image"), cell: ({ row }) => <code>{row.original.image}</code> },
    { id: "needs", header: t("op.catalog.needs"), cell: ({ row }) => <span className="figure">{needs(row.original.needs)}</span> },
    { id: "disk", accessorFn: (x) => x.disk_gib, header: t("op.catalog.disk"), cell: ({ row }) => <span className="figure">{`${row.original.disk_gib} GiB`}</span> },
    { id: "ports", header: t("op.catalog.ports"), cell: ({ row }) => (row.original.ports ?? []).map((p) => `${p.port}${p.name ? ` ${p.name}` : ""}`).join(", ") || "–" },
  ];
  if (list.error) return <ErrorPanel error={list.error} retry={() => void list.refetch()} />;
  if (!list.data) return <Skeleton height={300} />;
  return <DataTable label={t("op.catalog.templates")} rows={list.data.items ?? []} columns={columns} rowKey={(x) => x.name} />;
}

function Models() {
  const { t } = useTranslation();
  const list = useQuery({ queryKey: ["gpu-models"], queryFn: ({ signal }) => data(api.GET("/v1/gpu-models", { signal })), staleTime: 60_000 });
  const figure = (id: keyof Model, header: string, unit = ""): Columns<Model>[number] => ({
    id,
    accessorFn: (m) => Number(m[id] ?? -1),
    header,
    cell: ({ row }) => <span className="figure">{row.original[id] === undefined ? "–" : `${String(row.original[id])}${unit}`}</span>,
  });
  const columns: Columns<Model> = [
    { id: "name", accessorFn: (m) => m.name, header: t("host.gpu.model"), cell: ({ row }) => <Text fw={600} size="sm" className="figure">{row.original.name}</Text> },
    { id: "vendor", accessorFn: (m) => m.vendor, header: t("op.catalog.vendor"), cell: ({ row }) => row.original.vendor },
    { id: "architecture", accessorFn: (m) => m.architecture, header: t("op.catalog.architecture"), cell: ({ row }) => row.original.architecture },
    figure("vram_gb", t("market.vram"), " GB"),
    figure("bandwidth_gbs", t("op.catalog.bandwidth"), " GB/s"),
    figure("fp16_tflops", "FP16", " TFLOPS"),
    figure("fp32_tflops", "FP32", " TFLOPS"),
    figure("tdp_watts", t("host.gpu.power"), " W"),
    { id: "capability", header: t("op.catalog.capability"), cell: ({ row }) => row.original.compute_capability || "–" },
    { id: "source", header: t("op.catalog.source"), cell: ({ row }) => <Text size="xs" maw={260} truncate title={row.original.source}>{row.original.source}</Text> },
  ];
  if (list.error) return <ErrorPanel error={list.error} retry={() => void list.refetch()} />;
  if (!list.data) return <Skeleton height={300} />;
  return <DataTable label={t("op.catalog.models")} rows={list.data.items ?? []} columns={columns} rowKey={(m) => m.name} />;
}
