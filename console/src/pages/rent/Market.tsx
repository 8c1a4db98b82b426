import { Affix, Alert, Button, Checkbox, Group, Paper, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMe } from "../../me";
import { ButtonLink } from "../../ui/ButtonLink";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { mib } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";
import { Compare } from "./market/Compare";
import { compareMost, expression, needs, plans, sorts, type MarketPlan, type MarketSearch } from "./market/filters";
import { Filters } from "./market/Filters";
import { ModelCards } from "./market/ModelCards";
import { PlanPrice } from "./market/PlanPrice";
import { useTemplates } from "./order/templates";
import { Explain } from "./placement/Explain";

type Offer = Schema["Offer"];

/** What can be rented now. */
export function Market() {
  const { t, i18n } = useTranslation();
  const search = useSearch({ strict: false }) as MarketSearch;
  const navigate = useNavigate();
  const me = useMe();
  const [comparing, compare] = useDisclosure();
  const templates = useTemplates();
  const template = templates?.find((x) => x.name === search.template);
  const plan = search.plan ?? "on_demand";
  const change = (part: Partial<MarketSearch>) => void navigate({ to: "/market", search: { ...search, ...part }, replace: true, resetScroll: false });

  const needed = needs(template?.needs);
  const disk = template?.disk_gib;
  const filtered = { where: expression(search, needed), sort: search.sort, disk_gib: disk };
  const ready = !search.template || !!templates;
  const offers = usePages<Offer>(["offers", filtered], (cursor, signal) => data(api.GET("/v1/offers", { params: { query: { ...filtered, cursor, limit: 200 } }, signal })), { refetchInterval: 10_000, enabled: ready });
  const every = { where: expression({ ...search, model: undefined }, needed), disk_gib: disk };
  const models = useQuery({
    queryKey: ["offers", "models", every],
    queryFn: ({ signal }) => data(api.GET("/v1/offers", { params: { query: { ...every, limit: 500 } }, signal })),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
    enabled: ready,
  });
  const markets = useQuery({ queryKey: ["market"], queryFn: ({ signal }) => data(api.GET("/v1/market", { signal })), refetchInterval: 15_000, enabled: plan === "spot" || comparing }).data?.items ?? undefined;
  const priced = search.template ?? templates?.[0]?.name;

  const chosen = search.compare ?? [];
  const toggle = (id: string) => change({ compare: chosen.includes(id) ? chosen.filter((x) => x !== id) : [...chosen, id].slice(0, compareMost) });
  const rent = (o: Offer) => {
    if (plan === "spot") void navigate({ to: "/spot", search: { model: o.gpu_model, zone: o.zone, gpus: o.gpu_count, bid: true, template: search.template } });
    else void navigate({ to: "/rent/$offerId", params: { offerId: o.id }, search: { template: search.template, plan: plan === "monthly" ? plan : undefined } });
  };
  const filters = Object.keys(search).some((k) => !["plan", "sort", "compare"].includes(k));

  const columns: Columns<Offer> = [
    {
      id: "compare",
      header: t("market.compare_short"),
      cell: ({ row: { original: o } }) => (
        <Checkbox aria-label={t("market.compare_this", { offer: `${o.gpu_count} × ${o.gpu_model}`, host: o.host_name })} checked={chosen.includes(o.id)} disabled={!chosen.includes(o.id) && chosen.length >= compareMost} onChange={() => toggle(o.id)} />
      ),
    },
    {
      id: "gpu",
      header: t("market.gpu"),
      cell: ({ row: { original: o } }) => (
        <Group gap={6} wrap="nowrap">
          <Text fw={600} style={{ whiteSpace: "nowrap" }}>
            {o.gpu_model ? `${o.gpu_count} × ${o.gpu_model}` : t("market.cpu_only")}
          </Text>
          <Simulated simulated={o.simulated} />
        </Group>
      ),
    },
    { id: "price", header: t("market.price"), cell: ({ row }) => <PlanPrice offer={row.original} plan={plan} template={priced} markets={markets} /> },
    {
      id: "rent",
      header: t("market.actions"),
      cell: ({ row }) => (
        <Button size="compact-sm" onClick={() => rent(row.original)}>
          {t(plan === "spot" ? "market.bid" : "market.rent")}
        </Button>
      ),
    },
    { id: "vram", header: t("market.vram"), cell: ({ row }) => <span className="figure">{mib(row.original.vram_mib, i18n.language)}</span> },
    { id: "cpu", header: t("market.cpu_memory"), cell: ({ row: { original: o } }) => <span className="figure">{`${new Intl.NumberFormat(i18n.language).format(o.cpu_millis / 1000)} / ${mib(o.memory_mib, i18n.language)}`}</span> },
    { id: "disk", header: t("market.disk"), cell: ({ row }) => <span className="figure">{`${row.original.max_disk_gib} GiB`}</span> },
    { id: "net", header: t("market.network"), cell: ({ row: { original: o } }) => <span className="figure">{o.net_down_mbps ? `${o.net_down_mbps} / ${o.net_up_mbps ?? "–"} Mbit/s` : "–"}</span> },
    { id: "reliability", header: t("market.reliability"), cell: ({ row }) => <span className="figure">{row.original.reliability_percent ? `${row.original.reliability_percent} %` : "–"}</span> },
    { id: "zone", header: t("market.zone"), cell: ({ row }) => <span style={{ whiteSpace: "nowrap" }}>{`${row.original.region} / ${row.original.zone}`}</span> },
  ];
  return (
    <Page title={t("market.title")} about={t("market.about", { disk: disk ?? 20 })}>
      {template && (
        <Alert variant="light" withCloseButton closeButtonLabel={t("market.any_template")} onClose={() => change({ template: undefined })}>
          {t("market.for_template", { template: (i18n.language === "zh-CN" && template.title_zh) || template.title })}
        </Alert>
      )}
      <ModelCards offers={models.data ? (models.data.items ?? []) : undefined} more={!!models.data?.next_cursor} model={search.model} choose={(model) => change({ model })} />
      <Filters search={search} change={change} currency={me?.account.currency ?? "USD"} />
      <Group justify="space-between">
        <SegmentedControl aria-label={t("market.plan")} value={plan} onChange={(v) => change({ plan: v === "on_demand" ? undefined : (v as MarketPlan) })} data={plans.map((p) => ({ value: p, label: t(`plan.${p}`) }))} />
        <Select aria-label={t("market.sort")} w={230} allowDeselect={false} value={search.sort ?? sorts[0]!} onChange={(v) => change({ sort: v === sorts[0] ? undefined : (v ?? undefined) })} data={sorts.map((s) => ({ value: s, label: t(`sort.${s.replace("-", "")}`) }))} />
      </Group>
      {offers.error ? (
        <ErrorPanel error={offers.error} retry={offers.retry} />
      ) : !offers.first && offers.rows.length === 0 ? (
        filters ? (
          <Stack align="center">
            <Empty title={t("market.none.title")} text={t("market.none.text", { disk: disk ?? 20 })}>
              <ButtonLink to="/market">{t("market.reset")}</ButtonLink>
            </Empty>
            <Explain
              query={{ gpus: search.count ?? template?.needs.gpus ?? 1, gpu_model: search.model, zone: search.zones?.length === 1 ? search.zones[0] : undefined, disk_gib: disk ?? 20, ...(template?.needs.memory_gib && { memory_mib: template.needs.memory_gib * 1024 }), ...(search.real && { simulated: false }) }}
              fields={["gpu", "gpu_model", "zone"]}
              fits={(free) => t("placement.fits.market", { free })}
              apply={(c) => change({ ...(c.gpus && { count: c.gpus }), ...(c.gpu_model && { model: c.gpu_model }), ...(c.zone && { zones: [c.zone] }) })}
            />
          </Stack>
        ) : (
          <Empty title={t("market.empty.title")} text={t("market.empty.text", { disk: disk ?? 20 })} />
        )
      ) : (
        <DataTable label={t("market.title")} rows={offers.rows} columns={columns} rowKey={(o) => o.id} onOpen={rent} more={offers.more} loading={offers.first || offers.loading} height="max(340px, calc(100dvh - 480px))" />
      )}
      {chosen.length > 0 && !comparing && (
        <Affix position={{ bottom: 16, right: 16 }}>
          <Paper shadow="md" withBorder p="xs" role="status">
            <Group gap="xs">
              <Button size="sm" onClick={compare.open}>
                {t("market.compare_n", { count: chosen.length })}
              </Button>
              <Button size="sm" variant="default" onClick={() => change({ compare: undefined })}>
                {t("market.compare_none")}
              </Button>
            </Group>
          </Paper>
        </Affix>
      )}
      <Compare ids={chosen} opened={comparing && chosen.length > 0} close={compare.close} remove={toggle} template={priced} markets={markets} />
    </Page>
  );
}
