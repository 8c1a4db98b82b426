import { Badge, Button, Group, List, Modal, Paper, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMe } from "../../me";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { DiscountForm } from "./discounts/Form";

type Tiers = Schema["VolumeTiers"];

/** What a calendar month's compute takes off for accounts in a currency. */
export function Discounts() {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const own = useMe()?.account.currency;
  const list = useQuery({ queryKey: ["operator", "discounts"], queryFn: ({ signal }) => data(api.GET("/v1/volume-discounts", { signal })), refetchInterval: 30_000 });
  const rows = list.data?.items ?? [];
  const currencies = [...new Set(rows.map((r) => r.currency))].sort();
  // One begins from what was set last.
  const last = rows[0];
  const create = (
    <Button disabled={list.isPending} onClick={() => setOpened(true)}>
      {t("op.discount.new")}
    </Button>
  );
  return (
    <Page title={t("nav.op.discounts")} about={t("op.discount.about")} actions={create}>
      <Modal opened={opened} onClose={() => setOpened(false)} title={t("op.discount.new")} closeButtonProps={{ "aria-label": t("action.close") }}>
        <DiscountForm onClose={() => setOpened(false)} initial={{ currency: last?.currency ?? (own === "CNY" ? "CNY" : "USD"), tiers: last?.tiers ?? [] }} />
      </Modal>
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : list.isPending ? (
        <Skeleton h={320} role="status" aria-label={t("loading")} />
      ) : rows.length === 0 ? (
        <Empty title={t("op.discount.empty.title")} text={t("op.discount.empty.text")} />
      ) : (
        currencies.map((c) => <OfCurrency key={c} currency={c} sets={rows.filter((r) => r.currency === c)} />)
      )}
    </Page>
  );
}

/** What was set for a currency, newest first: the newest is for the months that begin after it. */
function OfCurrency({ currency, sets }: { currency: string; sets: Tiers[] }) {
  const { t, i18n } = useTranslation();
  const percent = (points: number) => new Intl.NumberFormat(i18n.language, { style: "percent", maximumFractionDigits: 2 }).format(points / 10_000);
  return (
    <Paper withBorder p="md" component="section">
      <Section title={t("op.discount.in", { currency })} about={t("op.discount.in.about")}>
        {sets.map((s, i) => (
          <Stack key={s.id} gap={4}>
            <Group gap="xs">
              <Text size="sm" fw={600}>
                {t("op.discount.set_at")} <Time at={s.set_at} />
              </Text>
              {i === 0 && (
                <Badge variant="light" tt="none">
                  {t("op.discount.newest")}
                </Badge>
              )}
            </Group>
            {s.tiers.length === 0 ? (
              <Text size="sm">{t("op.discount.none")}</Text>
            ) : (
              <List size="sm">
                {s.tiers.map((x) => (
                  <List.Item key={x.from}>
                    {t("op.discount.beyond")} <Money amount={x.from} currency={currency} />
                    {`: ${t("op.prices.off", { share: percent(x.basis_points) })}`}
                  </List.Item>
                ))}
              </List>
            )}
          </Stack>
        ))}
      </Section>
    </Paper>
  );
}
