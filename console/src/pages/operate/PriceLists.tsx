import { Badge, Button, Group, List, Paper, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { FormButton } from "../../ui/FormDialog";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { TextLink } from "../../ui/TextLink";
import { off } from "./pricelists";

type PriceList = Schema["PriceList"];
type Meter = Schema["PriceRule"]["meter"];

const meters: Meter[] = ["compute", "storage", "egress", "ingress", "public_ip", "snapshot", "volume"];
const keys = [["operator", "price-lists"]];

/** Prices of their own that accounts are given. */
export function PriceLists() {
  const { t, i18n } = useTranslation();
  const list = useQuery({ queryKey: ["operator", "price-lists"], queryFn: ({ signal }) => data(api.GET("/v1/operator/price-lists", { signal })), refetchInterval: 30_000 });
  const rows = list.data?.items ?? [];
  const create = (
    <FormButton
      title={t("op.prices.new")}
      about={t("op.prices.new_about")}
      action={t("op.prices.new")}
      variant="filled"
      done={t("done")}
      keys={keys}
      fields={[
        { name: "name", label: t("host.name"), required: true },
        { name: "meter", label: t("op.prices.meter"), kind: "choice", required: true, initial: "compute", choices: meters.map((m) => ({ value: m, label: t(`meter.${m}`) })) },
        { name: "gpu_model", label: t("market.model"), help: t("op.prices.model_about") },
        { name: "percent", label: t("op.prices.percent"), help: t("op.prices.percent_about"), kind: "money", unit: "%" },
        { name: "rate", label: t("op.prices.rate"), help: t("op.prices.rate_about"), kind: "money" },
        { name: "currency", label: t("op.prices.currency"), kind: "choice", choices: ["CNY", "USD"].map((c) => ({ value: c, label: c })) },
      ]}
      run={(v, key) =>
        data(
          api.POST("/v1/operator/price-lists", {
            params: { header: once(key) },
            body: {
              name: v.name.trim(),
              ...(v.currency && { currency: v.currency }),
              rules: [{ meter: v.meter, ...(v.gpu_model.trim() && { gpu_model: v.gpu_model.trim() }), ...(v.percent.trim() ? { off_ppm: off(v.percent) } : { rate: v.rate.trim() }) }],
            },
          }),
        )
      }
    />
  );
  const percent = (ppm: number) => new Intl.NumberFormat(i18n.language, { style: "percent", maximumFractionDigits: 4 }).format(ppm / 1_000_000);
  return (
    <Page title={t("nav.op.prices")} about={t("op.prices.about")} actions={create}>
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : list.isPending ? (
        <Skeleton h={320} role="status" aria-label={t("loading")} />
      ) : rows.length === 0 ? (
        <Empty title={t("op.prices.empty.title")} text={t("op.prices.empty.text")} />
      ) : (
        rows.map((l) => (
          <Paper key={l.id} withBorder p="md">
            <Section title={l.name} about={<><Time at={l.valid_from} /> – {l.valid_until ? <Time at={l.valid_until} /> : t("op.prices.for_ever")}</>} actions={<Assign list={l} />}>
              <List size="sm">
                {l.rules.map((r, i) => (
                  <List.Item key={i}>
                    {t(`meter.${r.meter}`)}
                    {r.gpu_model && ` · ${r.gpu_model}`}
                    {": "}
                    {r.rate && l.currency ? <Money amount={r.rate} currency={l.currency} /> : t("op.prices.off", { share: percent(r.off_ppm ?? 0) })}
                  </List.Item>
                ))}
              </List>
              {l.accounts.length === 0 ? <Text size="sm" c="dimmed">{t("op.prices.no_accounts")}</Text> : <Accounts list={l} />}
            </Section>
          </Paper>
        ))
      )}
    </Page>
  );
}

function Assign({ list: l }: { list: PriceList }) {
  const { t } = useTranslation();
  return (
    <FormButton
      size="xs"
      title={t("op.prices.assign")}
      about={t("op.prices.assign_about")}
      action={t("op.prices.assign")}
      done={t("done")}
      keys={keys}
      fields={[{ name: "account_id", label: t("op.prices.account"), required: true }]}
      run={(v, key) => data(api.POST("/v1/operator/price-lists/{price_list_id}/accounts", { params: { path: { price_list_id: l.id }, header: once(key) }, body: { account_id: v.account_id.trim() } }))}
    />
  );
}

function Accounts({ list: l }: { list: PriceList }) {
  const { t } = useTranslation();
  const take = useAct((id: string) => api.DELETE("/v1/operator/price-lists/{price_list_id}/accounts/{account_id}", { params: { path: { price_list_id: l.id, account_id: id } } }), { keys, done: t("done") });
  const ask = async (id: string) => {
    if (await confirm({ title: t("op.prices.take.title", { name: l.name }), text: t("op.prices.take.text"), action: t("op.prices.take"), danger: true })) take.mutate(id);
  };
  return (
    <Stack gap="xs">
      {l.accounts.map((a) => (
        <Group key={`${a.account_id}${a.assigned_at}`} gap="sm">
          <TextLink to="/operate/accounts/$accountId" params={{ accountId: a.account_id }} size="sm">
            {a.account_id}
          </TextLink>
          {a.ended_at ? (
            <Badge variant="light" color="gray" tt="none">
              {t("op.prices.taken")}
            </Badge>
          ) : (
            <Button size="compact-xs" variant="light" color="red" loading={take.isPending && take.variables === a.account_id} onClick={() => void ask(a.account_id)}>
              {t("op.prices.take")}
            </Button>
          )}
        </Group>
      ))}
    </Stack>
  );
}
