import { Alert, Button, Grid, Group, NumberInput, Paper, Radio, SegmentedControl, Select, SimpleGrid, Skeleton, Stack, Switch, Table, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, once, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { useAct } from "../../ui/act";
import { ButtonLink } from "../../ui/ButtonLink";
import { ErrorPanel, useErrorText } from "../../ui/errors";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Simulated } from "../../ui/simulated";
import { payments, terms, type Payment, type ReserveSearch } from "./reserve/search";

type Price = Schema["ReservationPrice"];
type Question = Schema["ReservationQuestion"];

/** Where a reservation is priced, its terms side by side, and bought. */
export function Reserve() {
  const { t, i18n } = useTranslation();
  const search = useSearch({ strict: false }) as ReserveSearch;
  const navigate = useNavigate();
  const may = useMay("lease:write");
  const change = (part: Partial<ReserveSearch>) => void navigate({ to: "/reserve", search: { ...search, ...part }, replace: true, resetScroll: false });
  const later = useDebouncedCallback(change, 400);
  const models = useQuery({ queryKey: ["gpu-models"], queryFn: ({ signal }) => data(api.GET("/v1/gpu-models", { signal })), staleTime: 600_000 }).data;
  const regions = useQuery({ queryKey: ["regions"], queryFn: ({ signal }) => data(api.GET("/v1/regions", { signal })), staleTime: 600_000 }).data;
  const zones = (regions?.items ?? []).flatMap((r) => (r.zones ?? []).map((z) => ({ value: z.id, label: (i18n.language === "zh-CN" && z.name_zh) || z.name })));
  const payment: Payment = search.payment ?? "none";
  const asked = !!(search.offer || search.model);
  const question = (months: number): Question => ({
    ...(search.offer ? { offer_id: search.offer } : { gpu_model: search.model, gpus: search.gpus ?? 1, ...(search.zone && { zone: search.zone }), ...(search.simulated && { simulated: true }) }),
    term_months: months,
    payment,
  });
  const quotes = useQueries({
    queries: terms.map((months) => ({
      queryKey: ["reservation-quote", question(months)],
      queryFn: ({ signal }: { signal: AbortSignal }) => data(api.POST("/v1/reservations/quote", { body: question(months), signal })),
      enabled: asked,
      refetchInterval: 60_000,
      retry: false,
    })),
  });
  const first = quotes.find((q) => q.data)?.data;
  // Whose price comes first is not chosen by that: what may be bought does not change
  // under who is about to press.
  const failed = (i: number) => !quotes[i]!.data && !!quotes[i]!.error;
  const wanted = terms.findIndex((months, i) => months === search.term && !failed(i));
  const at = wanted >= 0 ? wanted : terms.findIndex((_, i) => !failed(i));
  const term = terms[at];
  const chosen = quotes[at]?.data;
  const none = asked && quotes.every((q) => q.error);
  return (
    <Page title={t("reserve.new")} about={t("reserve.new.about")} actions={<ButtonLink to="/reservations" variant="default">{t("reserve.title")}</ButtonLink>}>
      <Paper withBorder p="md" component="section" aria-label={t("order.what")}>
        {search.offer ? (
          <Group justify="space-between">
            <Group gap="xs">
              <Text>{first ? `${first.gpus} × ${first.gpu_model} · ${first.region} / ${first.zone}` : t("reserve.of_offer")}</Text>
              <Simulated simulated={first?.simulated} />
            </Group>
            <Button size="xs" variant="default" onClick={() => change({ offer: undefined, model: first?.gpu_model, gpus: first?.gpus, zone: first?.zone, simulated: first?.simulated || undefined })}>
              {t("reserve.choose_other")}
            </Button>
          </Group>
        ) : (
          <Group align="flex-end">
            <Select label={t("market.model")} searchable w={220} value={search.model ?? null} onChange={(v) => change({ model: v ?? undefined })} data={[...new Set((models?.items ?? []).map((m) => m.name))]} />
            <NumberInput label={t("reserve.gpus")} w={120} min={1} max={64} allowDecimal={false} defaultValue={search.gpus ?? 1} onChange={(v) => later({ gpus: Number(v) || undefined })} />
            <Select label={t("market.zone")} placeholder={t("market.any")} clearable clearButtonProps={{ "aria-label": t("market.clear") }} w={220} value={search.zone ?? null} onChange={(v) => change({ zone: v ?? undefined })} data={zones} />
            <Switch pb={8} label={t("reserve.simulated")} checked={!!search.simulated} onChange={(e) => change({ simulated: e.currentTarget.checked || undefined })} />
          </Group>
        )}
      </Paper>
      {!asked ? (
        <Text c="dimmed">{t("reserve.begin")}</Text>
      ) : (
        <Grid gap="md">
          <Grid.Col span={{ base: 12, lg: 7 }}>
            <Stack>
              <div>
                <Text size="sm" fw={500} mb={4} id="payment">
                  {t("reserve.payment")}
                </Text>
                <SegmentedControl fullWidth aria-labelledby="payment" value={payment} onChange={(v) => change({ payment: v === "none" ? undefined : (v as Payment) })} data={payments.map((p) => ({ value: p, label: t(`reserve.pay.${p}`) }))} />
              </div>
              {none ? (
                <NotThere error={quotes[0]!.error} />
              ) : (
                <Radio.Group value={String(term ?? "")} onChange={(v) => change({ term: Number(v) })} aria-label={t("reserve.term")}>
                  <SimpleGrid cols={{ base: 1, xs: 2 }}>
                    {terms.map((months, i) => (
                      <Term key={months} months={months} price={quotes[i]!.data} error={quotes[i]!.error} />
                    ))}
                  </SimpleGrid>
                </Radio.Group>
              )}
              {chosen && <Schedule price={chosen} />}
            </Stack>
          </Grid.Col>
          <Grid.Col span={{ base: 12, lg: 5 }}>{chosen ? <Buy key={`${chosen.offer_id}-${term}-${payment}`} price={chosen} question={question(term!)} may={may} again={() => quotes.forEach((q) => void q.refetch())} /> : !none && <Skeleton h={320} role="status" aria-label={t("loading")} />}</Grid.Col>
        </Grid>
      )}
    </Page>
  );
}

/** No term can be had: why, and where else to look. */
function NotThere({ error }: { error: unknown }) {
  const { t } = useTranslation();
  return (
    <Stack>
      <ErrorPanel error={error} />
      <Text size="sm">{t("reserve.not_there")}</Text>
      <Group>
        <ButtonLink to="/market" variant="default">
          {t("nav.market")}
        </ButtonLink>
      </Group>
    </Stack>
  );
}

function Term({ months, price: p, error }: { months: number; price?: Price; error: unknown }) {
  const { t } = useTranslation();
  const words = useErrorText();
  return (
    <Radio.Card value={String(months)} p="sm" radius="md" disabled={!p}>
      <Group wrap="nowrap" align="flex-start" gap="sm">
        <Radio.Indicator mt={3} disabled={!p} />
        <Stack gap={2} flex={1}>
          <Text fw={600}>{t("reserve.months", { count: months })}</Text>
          {error ? (
            <Text size="sm" c="dimmed">
              {error instanceof ApiError && error.code === "not_offered" ? t("reserve.not_offered") : words(error).text}
            </Text>
          ) : !p ? (
            <Skeleton h={88} />
          ) : (
            <>
              <Text size="sm">
                <Money amount={p.per_gpu_hour} currency={p.currency} per="hour" /> {t("reserve.each_gpu")}
              </Text>
              <Text size="xs" c="dimmed">
                {t("order.due_now")} <Money amount={p.due_now} currency={p.currency} />
              </Text>
              <Text size="xs" c="dimmed">
                {t("reserve.total")} <Money amount={p.total} currency={p.currency} />
              </Text>
              <Text size="sm" fw={500}>
                {t("reserve.saves")} <Money amount={p.saving} currency={p.currency} /> {t("reserve.percent", { percent: p.discount_percent })}
              </Text>
              <Text size="xs" c="dimmed">
                {t("reserve.worth", { hours: p.break_even_hours, of: p.hours })}
              </Text>
            </>
          )}
        </Stack>
      </Group>
    </Radio.Card>
  );
}

function Schedule({ price: p }: { price: Price }) {
  const { t } = useTranslation();
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="xs">
        {t("reserve.schedule")}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t("reserve.schedule.about")}
      </Text>
      <Table.ScrollContainer minWidth={420} maxHeight={320} scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "region", "aria-label": t("reserve.schedule") } }}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("cost.from")}</Table.Th>
              <Table.Th>{t("cost.to")}</Table.Th>
              <Table.Th ta="right">{t("cost.amount")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {p.schedule.map((x, i) => (
              <Table.Tr key={i}>
                <Table.Td>
                  <Time at={x.from} />
                </Table.Td>
                <Table.Td>
                  <Time at={x.until} />
                </Table.Td>
                <Table.Td ta="right">
                  <Money amount={x.amount} currency={p.currency} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Paper>
  );
}

function Buy({ price: p, question, may, again }: { price: Price; question: Question; may: boolean; again: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [renews, setRenews] = useState(false);
  const buy = useAct(
    (v: { name: string; renews: boolean; total: string }, key) =>
      data(api.POST("/v1/reservations", { params: { header: once(key) }, body: { ...question, offer_id: p.offer_id, gpu_model: undefined, gpus: undefined, zone: undefined, simulated: undefined, ...(v.name && { name: v.name }), renews: v.renews, agreed_total: v.total } })),
    { keys: [["reservations"], ["balance"]], quiet: true, after: (r) => void navigate({ to: "/reservations/$reservationId", params: { reservationId: r.id } }) },
  );
  const moved = buy.error instanceof ApiError && buy.error.code === "price_moved";
  const poor = buy.error instanceof ApiError && buy.error.code === "insufficient_balance";
  const lines: [string, React.ReactNode][] = [
    [t("order.due_now"), <Money amount={p.due_now} currency={p.currency} />],
    [t("reserve.then"), <Money amount={p.per_gpu_hour} currency={p.currency} per="hour" />],
    [t("reserve.on_demand"), <Money amount={p.on_demand_per_gpu_hour} currency={p.currency} per="hour" />],
    [t("reserve.total"), <Money amount={p.total} currency={p.currency} />],
    [t("reserve.on_demand_total"), <Money amount={p.on_demand_total} currency={p.currency} />],
    [t("reserve.until"), <Time at={p.until} />],
  ];
  return (
    <Paper withBorder p="md" component="section" pos="sticky" top={72}>
      <Stack>
        <Group gap="xs">
          <Title order={2} size="h4">
            {`${p.gpus} × ${p.gpu_model}`}
          </Title>
          <Simulated simulated={p.simulated} />
        </Group>
        <Text size="sm" c="dimmed">{`${p.region} / ${p.zone}`}</Text>
        <Table>
          <Table.Tbody>
            {lines.map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Th scope="row" fw={400}>
                  {name}
                </Table.Th>
                <Table.Td ta="right">{value}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        <Text size="sm">{t("reserve.whether_used")}</Text>
        <TextInput label={t("order.name")} placeholder={t("order.name.auto")} maxLength={63} value={name} onChange={(e) => setName(e.currentTarget.value)} />
        <Switch label={t("reserve.renew")} description={t("reserve.renew.help")} checked={renews} onChange={(e) => setRenews(e.currentTarget.checked)} />
        {buy.error && <ErrorPanel error={buy.error} retry={moved ? () => (buy.reset(), again()) : undefined} />}
        {poor && (
          <Alert variant="light">
            <ButtonLink to="/money" size="xs">
              {t("order.pay_in")}
            </ButtonLink>
          </Alert>
        )}
        <Button size="md" disabled={!may} loading={buy.isPending} onClick={() => buy.mutate({ name: name.trim(), renews, total: p.total })}>
          {t("reserve.buy")}
        </Button>
        {!may && <Text size="sm" c="dimmed">{t("reserve.may_not")}</Text>}
      </Stack>
    </Paper>
  );
}
