import { Alert, Button, Group, Paper, SimpleGrid, Skeleton, Stack, Text, TextInput, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { useMay } from "../../../me";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { ErrorPanel } from "../../../ui/errors";
import { money, Money, Time } from "../../../ui/format";
import { Pay } from "./Pay";
import { Trial } from "./Trial";

type Grant = Schema["Grant"];

/** What there is to spend, how long it lasts, and what the account was given. */
export function Balance() {
  const { t } = useTranslation();
  const balance = useQuery({ queryKey: ["balance"], queryFn: ({ signal }) => data(api.GET("/v1/balance", { signal })), refetchInterval: 15_000 });
  const credit = useQuery({ queryKey: ["credit-limit"], queryFn: ({ signal }) => data(api.GET("/v1/credit-limit", { signal })) }).data;
  const b = balance.data;
  if (balance.error && !b) return <ErrorPanel error={balance.error} retry={() => void balance.refetch()} />;
  if (!b) return <Skeleton h={300} role="status" aria-label={t("loading")} />;
  const soon = b.runs_out_at && Date.parse(b.runs_out_at) - Date.now() < 86_400_000;
  const facts: [string, ReactNode][] = [
    ["available", <Money amount={b.available} currency={b.currency} />],
    ["burn", <Money amount={b.burn_per_hour} currency={b.currency} per="hour" />],
    ["runway", b.runs_out_at ? <Time at={b.runs_out_at} relative /> : t("balance.long")],
    ["settled", <Money amount={b.settled} currency={b.currency} />],
    ["held", <Money amount={b.held} currency={b.currency} />],
    ["unbilled", <Money amount={b.unbilled_due} currency={b.currency} />],
    ["granted", <Money amount={b.granted} currency={b.currency} />],
    ["credit", <Money amount={b.credit_limit} currency={b.currency} />],
  ];
  return (
    <Stack>
      {soon && (
        <Alert color="orange" title={t("balance.soon")}>
          {t("balance.soon.text")} <Time at={b.runs_out_at} relative />
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, xs: 2, sm: 3, lg: 4 }}>
        {facts.map(([key, value]) => (
          <Paper key={key} withBorder p="sm">
            <Text size="sm" c="dimmed">
              {t(`balance.${key}`)}
            </Text>
            <Text fw={600} fz="lg" style={{ overflowWrap: "anywhere" }}>
              {value}
            </Text>
            <Text size="xs" c="dimmed">
              {t(`balance.${key}.means`)}
            </Text>
          </Paper>
        ))}
      </SimpleGrid>
      {credit?.set_at && credit.net_days > 0 && <Text size="sm">{t("balance.net_days", { count: credit.net_days })}</Text>}
      <Trial />
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Pay currency={b.currency} />
        <Coupon />
      </SimpleGrid>
      <Grants />
    </Stack>
  );
}

function Coupon() {
  const { t, i18n } = useTranslation();
  const queries = useQueryClient();
  const may = useMay("billing:write");
  const [code, setCode] = useState("");
  const redeem = useMutation({
    mutationFn: (key: string) => data(api.POST("/v1/coupons/redeem", { params: { header: once(key) }, body: { code: code.trim() } })),
    onSuccess: (g) => {
      setCode("");
      notifications.show({ message: t("coupon.done", { amount: money(g.amount, g.currency, i18n.language) }) });
      void queries.invalidateQueries({ queryKey: ["grants"] });
      void queries.invalidateQueries({ queryKey: ["balance"] });
    },
  });
  if (!may) return null;
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("coupon.title")}
      </Title>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (code.trim()) redeem.mutate(newKey());
        }}
      >
        <Stack gap="sm">
          <Group align="flex-end">
            <TextInput label={t("coupon.code")} value={code} onChange={(e) => setCode(e.currentTarget.value)} autoComplete="off" flex={1} />
            <Button type="submit" variant="default" disabled={!code.trim()} loading={redeem.isPending}>
              {t("coupon.redeem")}
            </Button>
          </Group>
          {redeem.error && <ErrorPanel error={redeem.error} />}
        </Stack>
      </form>
    </Paper>
  );
}

function Grants() {
  const { t } = useTranslation();
  const grants = useQuery({ queryKey: ["grants"], queryFn: ({ signal }) => data(api.GET("/v1/grants", { signal })) });
  const columns: Columns<Grant> = [
    { id: "kind", header: t("grant.kind"), cell: ({ row }) => t(`grant.kind.${row.original.kind}`) },
    { id: "amount", header: t("grant.amount"), cell: ({ row: { original: g } }) => <Money amount={g.amount} currency={g.currency} /> },
    { id: "left", header: t("grant.left"), cell: ({ row: { original: g } }) => <Money amount={g.left} currency={g.currency} /> },
    { id: "for", header: t("grant.for"), cell: ({ row: { original: g } }) => (g.meters?.length ? g.meters.map((m) => t(`meter.${m}`)).join(", ") : t("grant.all")) },
    { id: "until", header: t("grant.until"), cell: ({ row: { original: g } }) => (g.expires_at ? <Time at={g.expires_at} /> : g.active_from ? t("order.never") : t("grant.unused")) },
    { id: "why", header: t("grant.why"), cell: ({ row }) => row.original.reference ?? "–" },
  ];
  if (grants.error) return <ErrorPanel error={grants.error} retry={() => void grants.refetch()} />;
  const rows = grants.data?.items ?? [];
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("grant.title")}
      </Title>
      {grants.data && rows.length === 0 ? <Text c="dimmed">{t("grant.none")}</Text> : <DataTable label={t("grant.title")} rows={rows} columns={columns} rowKey={(g) => g.id} loading={grants.isPending} height={320} />}
    </Paper>
  );
}
