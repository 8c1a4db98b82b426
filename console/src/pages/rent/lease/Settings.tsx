import { Button, Group, NumberInput, Paper, Stack, TagsInput, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";
import { Time } from "../../../ui/format";

const never = "0001-01-01T00:00:00Z";
const hour = 3600_000;

/** What can be changed of a lease while it lives. */
export function Settings({ lease }: { lease: Schema["Lease"] }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const form = useForm({
    initialValues: {
      name: lease.name,
      labels: Object.entries(lease.labels ?? {}).map(([k, v]) => `${k}=${v}`),
      idle: (lease.idle_stop ? Math.round(lease.idle_stop.after_seconds / 60) : "") as number | string,
    },
    validate: { labels: (v) => (v.every((l) => /^[^=\s]+=.*$/.test(l)) ? null : t("settings.labels.bad")) },
  });
  const change = useMutation({
    mutationFn: ({ key, body }: { key: string; body: Schema["LeaseUpdate"] }) => data(api.PATCH("/v1/leases/{lease_id}", { params: { path: { lease_id: lease.id }, header: once(key) }, body })),
    onSuccess: (l) => {
      queries.setQueryData(["lease", lease.id], l);
      void queries.invalidateQueries({ queryKey: ["leases"] });
      form.resetDirty();
      notifications.show({ message: t("saved") });
    },
  });
  const stopAt = (at: string) => change.mutate({ key: newKey(), body: { stop_at: at } });
  const later = (ms: number) => stopAt(new Date(Math.max(Date.now(), lease.stop_at ? Date.parse(lease.stop_at) : 0) + ms).toISOString());
  return (
    <Stack maw={720}>
      {change.error && <ErrorPanel error={change.error} />}
      <Paper withBorder p="md" component="section">
        <Title order={2} size="h4" mb="xs">
          {t("settings.deadline")}
        </Title>
        <Text size="sm" mb="sm">
          {lease.stop_at ? (
            <>
              {t("settings.stops")} <Time at={lease.stop_at} /> (<Time at={lease.stop_at} relative />)
            </>
          ) : (
            t("settings.no_deadline")
          )}
        </Text>
        <Group>
          {([1, 8, 24, 168] as const).map((h) => (
            <Button key={h} size="xs" variant="default" onClick={() => later(h * hour)}>
              {h < 24 ? t("settings.hours_more", { count: h }) : t("settings.days_more", { count: h / 24 })}
            </Button>
          ))}
          {lease.stop_at && (
            <Button size="xs" variant="subtle" onClick={() => stopAt(never)}>
              {t("settings.no_stop")}
            </Button>
          )}
        </Group>
      </Paper>
      <Paper withBorder p="md" component="section">
        <Title order={2} size="h4" mb="xs">
          {t("settings.title")}
        </Title>
        <form
          onSubmit={form.onSubmit((v) =>
            change.mutate({
              key: newKey(),
              body: {
                ...(form.isDirty("name") && { name: v.name.trim() }),
                ...(form.isDirty("labels") && { labels: Object.fromEntries(v.labels.map((l) => [l.slice(0, l.indexOf("=")), l.slice(l.indexOf("=") + 1)])) }),
                ...(form.isDirty("idle") && { idle_stop: { after_seconds: Number(v.idle || 0) * 60, cpu_percent: lease.idle_stop?.cpu_percent ?? 5, gpu_percent: lease.idle_stop?.gpu_percent ?? 5 } }),
              },
            }),
          )}
        >
          <Stack gap="sm">
            <TextInput label={t("lease.name")} maxLength={63} {...form.getInputProps("name")} />
            <TagsInput label={t("settings.labels")} description={t("settings.labels.help")} placeholder="team=vision" {...form.getInputProps("labels")} />
            <NumberInput label={t("order.idle_stop")} description={t("order.idle_stop.help")} suffix=" min" min={0} allowDecimal={false} {...form.getInputProps("idle")} />
            {lease.spending_cap && <Text size="sm">{t("settings.cap", { cap: `${lease.spending_cap} ${lease.currency}` })}</Text>}
            <Group>
              <Button type="submit" disabled={!form.isDirty()} loading={change.isPending}>
                {t("save")}
              </Button>
            </Group>
          </Stack>
        </form>
      </Paper>
    </Stack>
  );
}
