import { Alert, Button, Grid, Group, NumberInput, Paper, Select, SimpleGrid, Skeleton, Stack, Switch, Table, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, once, type Schema } from "../../api/client";
import { useMe, useMay } from "../../me";
import { useAct } from "../../ui/act";
import { ButtonLink } from "../../ui/ButtonLink";
import { ErrorPanel } from "../../ui/errors";
import { duration, Money } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Simulated } from "../../ui/simulated";
import { policies, type ClusterSearch, type Policy } from "./clusters/search";
import { useTemplates } from "./order/templates";
import { Explain } from "./placement/Explain";

type Price = Schema["ClusterPrice"];
type Question = Schema["ClusterQuestion"];

const waits = [0, 3600, 6 * 3600, 86_400, 7 * 86_400];

/** Where a cluster is priced as a whole, and rented. */
export function NewCluster() {
  const { t, i18n } = useTranslation();
  const search = useSearch({ strict: false }) as ClusterSearch;
  const navigate = useNavigate();
  const change = (part: Partial<ClusterSearch>) => void navigate({ to: "/new-cluster", search: { ...search, ...part }, replace: true, resetScroll: false });
  const later = useDebouncedCallback(change, 400);
  const models = useQuery({ queryKey: ["gpu-models"], queryFn: ({ signal }) => data(api.GET("/v1/gpu-models", { signal })), staleTime: 600_000 }).data;
  const regions = useQuery({ queryKey: ["regions"], queryFn: ({ signal }) => data(api.GET("/v1/regions", { signal })), staleTime: 600_000 }).data;
  const zones = (regions?.items ?? []).flatMap((r) => (r.zones ?? []).map((z) => ({ value: z.id, label: (i18n.language === "zh-CN" && z.name_zh) || z.name })));
  const templates = useTemplates();
  const nodes = search.nodes ?? 2;
  const gpus = search.gpus ?? 1;
  const template = search.image ? undefined : (search.template ?? templates?.[0]?.name);
  const asked = !!search.model && !!(template || search.image);
  const question: Question = {
    nodes,
    gpus_per_node: gpus,
    gpu_model: search.model ?? "",
    ...(search.fast && { fast_network: true }),
    ...(search.zone && { zone: search.zone }),
    ...(search.region && { region: search.region }),
    ...(search.simulated && { simulated: true }),
    ...(search.image ? { image: search.image } : { template }),
    ...(search.disk && { disk_gib: search.disk }),
  };
  const quote = useQuery({
    queryKey: ["cluster-quote", question],
    queryFn: ({ signal }) => data(api.POST("/v1/clusters/quote", { body: question, signal })),
    enabled: asked,
    refetchInterval: 30_000,
    retry: false,
  });
  const nowhere = quote.error instanceof ApiError && quote.error.code === "cluster_no_hosts";
  return (
    <Page title={t("cluster.new")} about={t("cluster.new.about")} actions={<ButtonLink to="/clusters" variant="default">{t("nav.clusters")}</ButtonLink>}>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Stack>
            <Paper withBorder p="md" component="section">
              <Title order={2} size="h4" mb="sm">
                {t("cluster.hardware")}
              </Title>
              {/* Fields that hold what was typed begin anew when an advice changes it. */}
              <SimpleGrid cols={{ base: 1, xs: 2 }} key={`${search.nodes}-${search.gpus}-${search.disk}`}>
                <NumberInput label={t("cluster.nodes")} description={t("cluster.nodes.help")} inputWrapperOrder={["label", "input", "description"]} min={2} max={64} allowDecimal={false} defaultValue={nodes} onChange={(v) => later({ nodes: Number(v) || undefined })} />
                <NumberInput label={t("cluster.gpus")} min={1} max={64} allowDecimal={false} defaultValue={gpus} onChange={(v) => later({ gpus: Number(v) || undefined })} />
                <Select label={t("market.model")} placeholder={t("cluster.choose_model")} searchable value={search.model ?? null} onChange={(v) => change({ model: v ?? undefined })} data={[...new Set((models?.items ?? []).map((m) => m.name))]} />
                <Select label={t("market.zone")} placeholder={t("market.any")} clearable clearButtonProps={{ "aria-label": t("market.clear") }} value={search.zone ?? null} onChange={(v) => change({ zone: v ?? undefined, region: undefined })} data={zones} />
              </SimpleGrid>
              <Stack gap="sm" mt="sm">
                <Switch label={t("cluster.fast")} description={t("cluster.fast.help")} checked={!!search.fast} onChange={(e) => change({ fast: e.currentTarget.checked || undefined })} />
                <Switch label={t("reserve.simulated")} checked={!!search.simulated} onChange={(e) => change({ simulated: e.currentTarget.checked || undefined })} />
              </Stack>
            </Paper>
            <Paper withBorder p="md" component="section">
              <Title order={2} size="h4" mb="sm">
                {t("order.what")}
              </Title>
              <SimpleGrid cols={{ base: 1, xs: 2 }}>
                <Select label={t("order.template")} allowDeselect={false} value={search.image ? null : (template ?? null)} placeholder={search.image ? t("order.own_image") : undefined} onChange={(v) => change({ template: v ?? undefined, image: undefined })} data={(templates ?? []).map((x) => ({ value: x.name, label: (i18n.language === "zh-CN" && x.title_zh) || x.title }))} />
                <TextInput label={t("cluster.image")} key={search.template ?? ""} defaultValue={search.image ?? ""} placeholder="docker.io/library/debian:12" onChange={(e) => later({ image: e.currentTarget.value.trim() || undefined })} />
                <NumberInput label={t("cluster.disk")} suffix=" GiB" min={1} allowDecimal={false} placeholder={t("order.by_template")} defaultValue={search.disk ?? ""} onChange={(v) => later({ disk: Number(v) || undefined })} />
              </SimpleGrid>
            </Paper>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          {!asked ? (
            <Paper withBorder p="md">
              <Text c="dimmed">{t(search.model ? "order.need_image" : "cluster.begin")}</Text>
            </Paper>
          ) : quote.error ? (
            <Stack>
              <ErrorPanel error={quote.error} retry={() => void quote.refetch()} />
              {nowhere && (
                <Explain
                  query={{ nodes, gpus, gpu_model: search.model, zone: search.zone, region: search.region, disk_gib: search.disk, within: search.fast ? "zone" : undefined, simulated: !!search.simulated }}
                  fields={["gpu", "gang", "gpu_model", "zone", "region", "disk"]}
                  fits={() => t("cluster.fits_but")}
                  apply={(c) => change({ ...(c.gpus && { gpus: c.gpus }), ...(c.nodes && { nodes: c.nodes }), ...(c.gpu_model && { model: c.gpu_model }), ...(c.zone && { zone: c.zone }), ...(c.region && { region: c.region, zone: undefined }), ...(c.disk_gib && { disk: c.disk_gib }) })}
                />
              )}
              {nowhere && <Order question={question} />}
            </Stack>
          ) : quote.data ? (
            <Stack>
              <Whole price={quote.data} />
              <Order question={question} price={quote.data} again={() => void quote.refetch()} />
            </Stack>
          ) : (
            <Skeleton h={360} role="status" aria-label={t("loading")} />
          )}
        </Grid.Col>
      </Grid>
    </Page>
  );
}

/** What each node costs and where it would be, and the whole. */
function Whole({ price: p }: { price: Price }) {
  const { t, i18n } = useTranslation();
  const waits = Math.max(0, ...p.hosts.map((h) => h.available_after_seconds ?? 0));
  return (
    <Paper withBorder p="md" component="section">
      <Group gap="xs" mb="xs">
        <Title order={2} size="h4">
          {t("quote.title")}
        </Title>
        <Simulated simulated={p.simulated} />
      </Group>
      <Table.ScrollContainer minWidth={360} maxHeight={420} scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "region", "aria-label": t("quote.title") } }}>
        <Table stickyHeader>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("cluster.rank")}</Table.Th>
              <Table.Th>{t("market.zone")}</Table.Th>
              <Table.Th>{t("cluster.rack")}</Table.Th>
              <Table.Th ta="right">{t("quote.per_hour")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {p.hosts.map((h) => (
              <Table.Tr key={h.rank}>
                <Table.Td className="figure">{h.rank}</Table.Td>
                <Table.Td>{`${h.region} / ${h.zone}`}</Table.Td>
                <Table.Td>{h.rack || "–"}</Table.Td>
                <Table.Td ta="right">
                  <Money amount={h.per_hour} currency={p.currency} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
          <Table.Tfoot>
            <Table.Tr>
              <Table.Th scope="row" colSpan={3}>
                {t("cluster.all_nodes", { count: p.nodes })}
              </Table.Th>
              <Table.Th ta="right">
                <Money amount={p.per_hour} currency={p.currency} per="hour" />
              </Table.Th>
            </Table.Tr>
          </Table.Tfoot>
        </Table>
      </Table.ScrollContainer>
      <Text size="sm" mt="xs">
        {t("cluster.free_until")}
      </Text>
      {waits > 0 && (
        <Alert variant="light" mt="xs">
          {t("quote.waits", { time: duration(waits, i18n.language) })}
        </Alert>
      )}
    </Paper>
  );
}

/** Accepts the price of the whole; or, where there are no hosts, waits for some at a price. */
function Order({ question, price, again }: { question: Question; price?: Price; again?: () => void }) {
  const { t, i18n } = useTranslation();
  const navigate = useNavigate();
  const me = useMe();
  const may = useMay("lease:write");
  const [name, setName] = useState("");
  const [policy, setPolicy] = useState<Policy>("fail");
  const [wait, setWait] = useState(price ? 0 : 6 * 3600);
  const [most, setMost] = useState("");
  const agreed = price?.per_hour ?? most.trim();
  const create = useAct((v: Schema["ClusterCreate"], key) => data(api.POST("/v1/clusters", { params: { header: once(key) }, body: v })), {
    keys: [["clusters"], ["leases"], ["balance"]],
    quiet: true,
    after: (c) => void navigate({ to: "/clusters/$clusterId", params: { clusterId: c.id } }),
  });
  const moved = create.error instanceof ApiError && create.error.code === "price_moved";
  const poor = create.error instanceof ApiError && create.error.code === "insufficient_balance";
  return (
    <Paper withBorder p="md" component="section">
      <Stack>
        <Title order={2} size="h4">
          {t(price ? "cluster.order" : "cluster.queue")}
        </Title>
        {!price && <Text size="sm">{t("cluster.queue.text")}</Text>}
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <TextInput label={t("order.name")} placeholder={t("order.name.auto")} maxLength={48} value={name} onChange={(e) => setName(e.currentTarget.value)} />
          <Select label={t("cluster.policy")} allowDeselect={false} value={policy} onChange={(v) => setPolicy(v as Policy)} data={policies.map((p) => ({ value: p, label: t(`cluster.policy.${p}`) }))} />
          <Select label={t("cluster.wait")} allowDeselect={false} value={String(wait)} onChange={(v) => setWait(Number(v))} data={waits.filter((s) => price || s > 0).map((s) => ({ value: String(s), label: s ? duration(s, i18n.language) : t("cluster.wait.not") }))} />
          {!price && <TextInput label={t("cluster.most", { currency: me?.account.currency ?? "" })} description={t("cluster.most.help")} inputMode="decimal" inputWrapperOrder={["label", "input", "description"]} value={most} onChange={(e) => setMost(e.currentTarget.value)} />}
        </SimpleGrid>
        <Text size="sm" c="dimmed">
          {t(`cluster.policy.${policy}.text`)}
        </Text>
        {create.error && <ErrorPanel error={create.error} retry={moved && again ? () => (create.reset(), again()) : undefined} />}
        {poor && (
          <Alert variant="light">
            <ButtonLink to="/money" size="xs">
              {t("order.pay_in")}
            </ButtonLink>
          </Alert>
        )}
        <Button size="md" disabled={!may || !agreed} loading={create.isPending} onClick={() => create.mutate({ ...question, agreed_per_hour: agreed, policy, ...(name.trim() && { name: name.trim() }), ...(wait > 0 && { wait_seconds: wait }) })}>
          {t(price ? "cluster.accept" : "cluster.accept_queue")}
        </Button>
        {!may && <Text size="sm" c="dimmed">{t("order.may_not")}</Text>}
      </Stack>
    </Paper>
  );
}
