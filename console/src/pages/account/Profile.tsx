import { Button, Group, Paper, Select, SimpleGrid, Skeleton, Stack, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { Copy } from "../../ui/Copy";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";

/** Who the account is: its name, time zone and limits, and how it is named on invoices. */
export function Profile() {
  const { t } = useTranslation();
  const account = useQuery({ queryKey: ["account"], queryFn: ({ signal }) => data(api.GET("/v1/account", { signal })) });
  const billing = useMay("billing:read");
  return (
    <Page title={t("profile.title")} about={t("profile.about")}>
      {account.error ? (
        <ErrorPanel error={account.error} retry={() => void account.refetch()} />
      ) : !account.data ? (
        <Skeleton h={300} role="status" aria-label={t("loading")} />
      ) : (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Edit account={account.data} />
          {billing && <Billing />}
        </SimpleGrid>
      )}
    </Page>
  );
}

function Edit({ account }: { account: Schema["Account"] }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const may = useMay("account:write");
  const form = useForm({ initialValues: { name: account.name, zone: account.time_zone } });
  const zones = [...new Set([account.time_zone, "UTC", ...Intl.supportedValuesOf("timeZone")])];
  const save = useMutation({
    mutationFn: (v: typeof form.values) => data(api.PATCH("/v1/account", { body: { name: v.name.trim(), time_zone: v.zone } })),
    onSuccess: () => {
      form.resetDirty();
      notifications.show({ message: t("saved") });
      void queries.invalidateQueries({ queryKey: ["account"] });
      void queries.invalidateQueries({ queryKey: ["me"] });
    },
  });
  return (
    <Paper withBorder p="md" component="section">
      <form onSubmit={form.onSubmit((v) => save.mutate(v))}>
        <Stack>
          <Title order={2} size="h4">
            {t("profile.account")}
          </Title>
          <TextInput label={t("profile.name")} readOnly={!may} maxLength={200} required {...form.getInputProps("name")} />
          <Select label={t("profile.zone")} description={t("profile.zone.help")} searchable allowDeselect={false} readOnly={!may} data={zones} limit={60} {...form.getInputProps("zone")} />
          <Text size="sm">{t("profile.limits", { leases: account.max_leases, gpus: account.max_gpus, currency: account.currency })}</Text>
          <Text size="sm">
            {t("profile.since")} <Time at={account.created_at} />
          </Text>
          <Copy text={account.id} />
          {save.error && <ErrorPanel error={save.error} />}
          {may && (
            <Group>
              <Button type="submit" disabled={!form.isDirty()} loading={save.isPending}>
                {t("save")}
              </Button>
            </Group>
          )}
        </Stack>
      </form>
    </Paper>
  );
}

function Billing() {
  const { t } = useTranslation();
  const profile = useQuery({ queryKey: ["billing-profile"], queryFn: ({ signal }) => data(api.GET("/v1/billing-profile", { signal })) });
  const p = profile.data;
  return (
    <Paper withBorder p="md" component="section">
      <Stack gap="xs">
        <Title order={2} size="h4">
          {t("profile.billing")}
        </Title>
        {profile.error ? (
          <ErrorPanel error={profile.error} />
        ) : !p ? (
          <Skeleton h={100} />
        ) : (
          (["name", "address", "tax_number", "jurisdiction"] as const).map((k) => (
            <div key={k}>
              <Text size="xs" c="dimmed">
                {t(`profile.billing.${k}`)}
              </Text>
              <Text size="sm" style={{ whiteSpace: "pre-line", overflowWrap: "anywhere" }}>
                {p[k] || "–"}
              </Text>
            </div>
          ))
        )}
        <Text size="xs" c="dimmed">
          {t("profile.billing.help")}
        </Text>
      </Stack>
    </Paper>
  );
}
