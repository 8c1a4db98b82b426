import { Accordion, Alert, Button, Grid, Group, NumberInput, Paper, Radio, Select, SimpleGrid, Skeleton, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconArrowLeft, IconRocket } from "@tabler/icons-react";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, newKey, once } from "../../api/client";
import { useMay } from "../../me";
import { ButtonLink } from "../../ui/ButtonLink";
import { ErrorPanel } from "../../ui/errors";
import { mib, Money } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Simulated } from "../../ui/simulated";
import { TextLink } from "../../ui/TextLink";
import { Keys } from "./order/Keys";
import { optionKey, PlanCards } from "./order/PlanCards";
import { QuoteTable } from "./order/QuoteTable";
import type { OrderSearch } from "./order/search";
import { fits, useTemplates } from "./order/templates";

const custom = "";

/** Where an offer is priced and accepted. */
export function Rent() {
  const { t, i18n } = useTranslation();
  const zh = i18n.language === "zh-CN";
  const { offerId } = useParams({ strict: false }) as { offerId: string };
  const search = useSearch({ strict: false }) as OrderSearch;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const may = useMay("lease:write");
  const templates = useTemplates();
  const offer = useQuery({
    // What the machine has; what is wanted of it is priced by the quote.
    queryKey: ["offer", offerId, "machine"],
    queryFn: ({ signal }) => data(api.GET("/v1/offers/{offer_id}", { params: { path: { offer_id: offerId }, query: { disk_gib: 1 } }, signal })),
    refetchInterval: 30_000,
    placeholderData: keepPreviousData,
  });
  const change = (part: Partial<OrderSearch>) => void navigate({ to: "/rent/$offerId", params: { offerId }, search: { ...search, ...part }, replace: true, resetScroll: false });
  // What is typed is priced a moment later, all of it, and only what was priced can
  // be accepted.
  const typed = useRef<Partial<OrderSearch>>({});
  const [typing, setTyping] = useState(false);
  const settle = useDebouncedCallback(() => {
    change(typed.current);
    typed.current = {};
    setTyping(false);
  }, 400);
  const later = (part: Partial<OrderSearch>) => {
    typed.current = { ...typed.current, ...part };
    setTyping(true);
    settle();
  };

  const image = search.image;
  const template = image !== undefined ? undefined : (search.template ?? (offer.data && templates?.find((x) => fits(x, offer.data))?.name));
  const chosen = templates?.find((x) => x.name === template);
  const [writingImage, setWritingImage] = useState(image !== undefined);
  const [imageText, setImageText] = useState(image ?? "");
  const hours = search.hours ?? 1;
  const seconds = hours * 3600;
  const form = useForm({ initialValues: { name: "", stopHours: "" as number | string, idleMinutes: "" as number | string, cap: "" as number | string, ports: "", renews: false, onLapse: "stop" as "stop" | "on_demand" } });

  const what = { offer_id: offerId, template, image, disk_gib: search.disk, run_seconds: seconds };
  const ready = !!(writingImage ? image : template);
  const comparison = useQuery({ queryKey: ["compare", what], queryFn: ({ signal }) => data(api.POST("/v1/quotes/compare", { body: what, signal })), enabled: ready, placeholderData: keepPreviousData, retry: false });
  const plan: "on_demand" | "monthly" = search.plan ?? "on_demand";
  const term = plan === "monthly" ? (search.term ?? 1) : undefined;
  const wanted = { ...what, plan, ...(term && { term_months: term, renews: form.values.renews, on_lapse: form.values.onLapse }) };
  const quote = useQuery({
    queryKey: ["quote", wanted],
    queryFn: ({ signal }) => data(api.POST("/v1/quotes", { params: { header: once(newKey()) }, body: wanted, signal })),
    enabled: ready && may,
    // A quote holds for some minutes; a page that stays open has a new one in time.
    staleTime: 120_000,
    refetchInterval: 300_000,
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
    retry: false,
  });

  const accept = useMutation({
    mutationFn: ({ key, quoteId }: { key: string; quoteId: string }) => {
      const v = form.values;
      const ports = v.ports.split(/[\s,，]+/).filter(Boolean).map(Number);
      return data(
        api.POST("/v1/leases", {
          params: { header: once(key) },
          body: {
            quote_id: quoteId,
            ...(v.name.trim() && { name: v.name.trim() }),
            ...(v.stopHours !== "" && { stop_at: new Date(Date.now() + Number(v.stopHours) * 3600_000).toISOString() }),
            ...(v.idleMinutes !== "" && { idle_stop: { after_seconds: Number(v.idleMinutes) * 60, cpu_percent: 5, gpu_percent: 5 } }),
            ...(v.cap !== "" && { spending_cap: String(v.cap) }),
            ...(ports.length > 0 && { ports }),
          },
        }),
      );
    },
    onSuccess: (lease) => {
      void queries.invalidateQueries({ queryKey: ["leases"] });
      void queries.invalidateQueries({ queryKey: ["balance"] });
      void navigate({ to: "/leases/$leaseId", params: { leaseId: lease.id } });
    },
    onError: (e) => {
      if (e instanceof ApiError && ["quote_expired", "quote_used", "offer_taken", "price_moved"].includes(e.code)) void quote.refetch();
    },
  });
  // The same decision has the same key until something about it is changed.
  const decision = JSON.stringify([quote.data?.id, form.values]);
  const [key, setKey] = useState(newKey);
  useEffect(() => setKey(newKey()), [decision]);

  if (offer.error) {
    return (
      <Page title={t("order.title")}>
        <ErrorPanel error={offer.error} retry={() => void offer.refetch()} />
        <Group>
          <ButtonLink to="/market" variant="default">
            {t("order.back")}
          </ButtonLink>
        </Group>
      </Page>
    );
  }
  const o = offer.data;
  const failed = quote.error ?? comparison.error;
  const q = ready ? quote.data : undefined;
  return (
    <Page
      title={o ? t("order.rent", { what: `${o.gpu_count} × ${o.gpu_model}` }) : t("order.title")}
      about={o && `${o.region} / ${o.zone} · ${o.host_name} · ${mib(o.vram_mib, i18n.language)} · ${t("order.machine", { cpus: new Intl.NumberFormat(i18n.language).format(o.cpu_millis / 1000), memory: mib(o.memory_mib, i18n.language) })}`}
      actions={
        <>
          <Simulated simulated={o?.simulated} />
          <ButtonLink to="/market" variant="default" leftSection={<IconArrowLeft size={16} />}>
            {t("order.back")}
          </ButtonLink>
        </>
      }
    >
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Stack>
            <Paper withBorder p="md" component="section">
              <Title order={2} size="h4" mb="sm">
                {t("order.what")}
              </Title>
              {templates ? (
                <Radio.Group
                  aria-label={t("order.template")}
                  value={writingImage ? custom : (template ?? custom)}
                  onChange={(v) => {
                    setWritingImage(v === custom);
                    change(v === custom ? { template: undefined, image: imageText || undefined } : { template: v, image: undefined });
                  }}
                >
                  <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
                    {templates.map((x) => (
                      <Radio.Card key={x.name} value={x.name} p="sm" radius="md" disabled={o && !fits(x, o)} opacity={o && !fits(x, o) ? 0.6 : 1}>
                        <Group wrap="nowrap" align="flex-start" gap="sm">
                          <Radio.Indicator mt={3} />
                          <div>
                            <Text fw={600}>{(zh && x.title_zh) || x.title}</Text>
                            <Text size="xs" c="dimmed">
                              {o && !fits(x, o) ? t("order.unfit", { disk: x.disk_gib }) : (zh && x.description_zh) || x.description}
                            </Text>
                          </div>
                        </Group>
                      </Radio.Card>
                    ))}
                    <Radio.Card value={custom} p="sm" radius="md">
                      <Group wrap="nowrap" align="flex-start" gap="sm">
                        <Radio.Indicator mt={3} />
                        <div>
                          <Text fw={600}>{t("order.own_image")}</Text>
                          <Text size="xs" c="dimmed">
                            {t("order.own_image.text")}
                          </Text>
                        </div>
                      </Group>
                    </Radio.Card>
                  </SimpleGrid>
                </Radio.Group>
              ) : (
                <Skeleton h={160} />
              )}
              {writingImage && (
                <TextInput
                  mt="sm"
                  label={t("order.image")}
                  placeholder="debian:12"
                  value={imageText}
                  onChange={(e) => {
                    setImageText(e.currentTarget.value);
                    later({ template: undefined, image: e.currentTarget.value.trim() || undefined });
                  }}
                />
              )}
              <SimpleGrid cols={{ base: 1, xs: 2 }} mt="sm">
                <NumberInput label={t("order.disk")} suffix=" GiB" min={1} max={o?.max_disk_gib} allowDecimal={false} key={`disk-${template}`} defaultValue={search.disk ?? chosen?.disk_gib ?? 20} onChange={(v) => later({ disk: Number(v) || undefined })} />
                <NumberInput label={t("order.hours")} description={t("order.hours.help")} inputWrapperOrder={["label", "input", "description"]} suffix=" h" min={1} max={8760} allowDecimal={false} defaultValue={hours} onChange={(v) => later({ hours: Number(v) || undefined })} />
              </SimpleGrid>
            </Paper>
            <Paper withBorder p="md" component="section">
              <Title order={2} size="h4" mb="sm">
                {t("order.plan")}
              </Title>
{comparison.error ? <Text c="dimmed">{t("order.no_plan")}</Text> : <PlanCards
                comparison={comparison.data}
                value={optionKey({ plan, term_months: term, payment: undefined })}
                choose={(x) =>
                  x.plan === "spot"
                    ? void navigate({ to: "/spot", search: { model: o?.gpu_model, zone: o?.zone, gpus: o?.gpu_count, bid: true, template } })
                    : change(x.plan === "monthly" ? { plan: "monthly", term: x.term_months } : { plan: undefined, term: undefined })
                }/>}
              {comparison.data?.options.some((x) => x.plan === "reserved" && x.buyable) && (
                <Text size="sm" mt="sm">
                  {t("order.reserve")}{" "}
                  <TextLink to="/reserve" search={{ offer: offerId }} size="sm">
                    {t("order.reserve.link")}
                  </TextLink>
                </Text>
              )}
              {plan === "monthly" && (
                <Group mt="sm" align="flex-end">
                  <Switch label={t("order.renews")} {...form.getInputProps("renews", { type: "checkbox" })} />
                  <Select label={t("order.on_lapse")} allowDeselect={false} data={(["stop", "on_demand"] as const).map((v) => ({ value: v, label: t(`on_lapse.${v}`) }))} {...form.getInputProps("onLapse")} />
                </Group>
              )}
            </Paper>
            <Paper withBorder p="md" component="section">
              <Title order={2} size="h4" mb="sm">
                {t("order.access")}
              </Title>
              <Keys />
            </Paper>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <Paper withBorder p="md" component="section" pos="sticky" top={72}>
            <Stack>
              <Title order={2} size="h4">
                {t("quote.title")}
              </Title>
              {failed ? <ErrorPanel error={failed} retry={() => void (quote.refetch(), comparison.refetch())} /> : q ? <QuoteTable quote={q} seconds={seconds} /> : ready && may ? <Skeleton h={260} /> : <Text c="dimmed">{t(may ? "order.need_image" : "order.may_not")}</Text>}
              <TextInput label={t("order.name")} placeholder={t("order.name.auto")} maxLength={63} {...form.getInputProps("name")} />
              <Accordion variant="contained" chevronPosition="left">
                <Accordion.Item value="limits">
                  <Accordion.Control>{t("order.limits")}</Accordion.Control>
                  <Accordion.Panel>
                    <Stack gap="sm">
                      <NumberInput label={t("order.stop_after")} suffix=" h" min={1} max={87_600} placeholder={t("order.never")} {...form.getInputProps("stopHours")} />
                      <NumberInput label={t("order.idle_stop")} description={t("order.idle_stop.help")} suffix=" min" min={0} allowDecimal={false} placeholder={t("order.by_template")} {...form.getInputProps("idleMinutes")} />
                      <NumberInput label={t("order.cap", { currency: q?.currency ?? "" })} description={t("order.cap.help")} min={0} decimalScale={6} placeholder={t("order.none")} {...form.getInputProps("cap")} />
                      <TextInput label={t("order.ports")} placeholder="8888, 6006" {...form.getInputProps("ports")} />
                    </Stack>
                  </Accordion.Panel>
                </Accordion.Item>
              </Accordion>
              {accept.error && <ErrorPanel error={accept.error} />}
              {accept.error instanceof ApiError && accept.error.code === "insufficient_balance" && (
                <Alert variant="light">
                  <ButtonLink to="/money" size="xs">
                    {t("order.pay_in")}
                  </ButtonLink>
                </Alert>
              )}
              {q && (
                <Text size="sm">
                  {t("order.due_now")} <Money amount={q.due_now} currency={q.currency} />
                  {" · "}
                  {t("order.then")} <Money amount={q.per_hour} currency={q.currency} per="hour" />
                </Text>
              )}
              <Button size="md" leftSection={<IconRocket size={18} />} disabled={!q || !!failed || !may || typing || quote.isPlaceholderData} loading={accept.isPending} onClick={() => accept.mutate({ key, quoteId: q!.id })}>
                {t("order.accept")}
              </Button>
            </Stack>
          </Paper>
        </Grid.Col>
      </Grid>
    </Page>
  );
}
