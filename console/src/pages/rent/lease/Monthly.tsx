import { Button, Group, Paper, Select, Skeleton, Stack, Switch, Table, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { useMay } from "../../../me";
import { confirm } from "../../../ui/confirm";
import { ErrorPanel } from "../../../ui/errors";
import { money, Money, Time } from "../../../ui/format";

/** What is paid in advance for a lease, and what happens when it ends. */
export function Monthly({ leaseId }: { leaseId: string }) {
  const { t, i18n } = useTranslation();
  const queries = useQueryClient();
  const may = useMay("lease:write");
  const key = ["lease", leaseId, "monthly"];
  const months = useQuery({ queryKey: key, queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}/monthly", { params: { path: { lease_id: leaseId } }, signal })) });
  const set = (m: Schema["Months"]) => queries.setQueryData(key, m);
  const change = useMutation({ mutationFn: (v: { key: string; body: Schema["MonthsUpdate"] }) => data(api.PATCH("/v1/leases/{lease_id}/monthly", { params: { path: { lease_id: leaseId }, header: once(v.key) }, body: v.body })), onSuccess: set });
  const reprice = useMutation({
    mutationFn: async (idempotency: string) => {
      const r = await data(api.GET("/v1/leases/{lease_id}/monthly/reprice", { params: { path: { lease_id: leaseId } } }));
      const currency = months.data!.currency;
      const yes = await confirm({ title: t("monthly.reprice"), text: t("monthly.reprice.text", { month: money(r.per_month, currency, i18n.language), net: money(r.net, currency, i18n.language) }), action: t("monthly.reprice") });
      if (!yes) return undefined;
      return data(api.POST("/v1/leases/{lease_id}/monthly/reprice", { params: { path: { lease_id: leaseId }, header: once(idempotency) }, body: { agreed_net: r.net.startsWith("-") ? "0" : r.net } }));
    },
    onSuccess: (m) => m && set(m),
  });
  const m = months.data;
  if (months.error) return <ErrorPanel error={months.error} retry={() => void months.refetch()} />;
  if (!m) return <Skeleton h={200} role="status" aria-label={t("loading")} />;
  return (
    <Stack maw={720}>
      <Paper withBorder p="md" component="section">
        <Title order={2} size="h4" mb="xs">
          {t("monthly.title")}
        </Title>
        <Stack gap="xs">
          <Text size="sm">
            {t("monthly.paid")} <Time at={m.paid_from} /> – <Time at={m.paid_until} /> (<Time at={m.paid_until} relative />)
          </Text>
          <Text size="sm">
            {t("monthly.next")} <Money amount={m.next_term_price} currency={m.currency} /> · {t("monthly.back")} <Money amount={m.given_back_if_ended} currency={m.currency} />
          </Text>
          {(change.error ?? reprice.error) && <ErrorPanel error={change.error ?? reprice.error} />}
          {!m.ended_at && may && (
            <Group align="flex-end">
              <Switch label={t("order.renews")} checked={m.renews} onChange={(e) => change.mutate({ key: newKey(), body: { renews: e.currentTarget.checked } })} />
              <Select label={t("order.on_lapse")} allowDeselect={false} value={m.on_lapse} onChange={(v) => v && change.mutate({ key: newKey(), body: { on_lapse: v as "stop" | "on_demand" } })} data={(["stop", "on_demand"] as const).map((v) => ({ value: v, label: t(`on_lapse.${v}`) }))} />
              <Button variant="default" loading={reprice.isPending} onClick={() => reprice.mutate(newKey())}>
                {t("monthly.reprice")}
              </Button>
            </Group>
          )}
        </Stack>
      </Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("cost.what")}</Table.Th>
            <Table.Th>{t("cost.from")}</Table.Th>
            <Table.Th>{t("cost.to")}</Table.Th>
            <Table.Th ta="right">{t("cost.amount")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {m.payments.map((p, i) => (
            <Table.Tr key={i}>
              <Table.Td>{t(`bill_kind.${p.kind}`)}</Table.Td>
              <Table.Td>
                <Time at={p.from} />
              </Table.Td>
              <Table.Td>
                <Time at={p.until} />
              </Table.Td>
              <Table.Td ta="right">
                <Money amount={p.amount} currency={m.currency} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Stack>
  );
}
