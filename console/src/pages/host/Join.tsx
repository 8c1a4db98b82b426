import { Alert, Button, Group, Paper, Select, SimpleGrid, Stack, Text, TextInput, Timeline } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useLocalStorage } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useAct } from "../../ui/act";
import { Copy } from "../../ui/Copy";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { modelsOf, testOf, useHosts, type Host } from "./hosts";
import { HostState } from "./HostState";
import { SelfTest } from "./SelfTest";

type Token = Schema["JoinToken"] & { name: string; after: string };

/** How a machine becomes a host: one command, then watching it come. */
export function Join() {
  const { t, i18n } = useTranslation();
  const hosts = useHosts();
  const regions = useQuery({ queryKey: ["regions"], queryFn: ({ signal }) => data(api.GET("/v1/regions", { signal })) });
  const [token, setToken] = useState<Token>();
  const form = useForm({ initialValues: { name: "", region: null as string | null, zone: null as string | null, rack: "" } });
  const make = useAct(
    (v: typeof form.values) =>
      data(api.POST("/v1/hosts/join-tokens", { body: { expires_in_seconds: 3600, name: v.name.trim() || undefined, region: v.region ?? undefined, zone: v.zone ?? undefined, rack: v.rack.trim() || undefined } })),
    { quiet: true, after: (made) => setToken({ ...made, name: form.values.name.trim(), after: hosts.data?.at(-1)?.id ?? "" }) },
  );
  const zh = i18n.language === "zh-CN";
  const named = (p: { id: string; name: string; name_zh?: string }) => ({ value: p.id, label: `${(zh && p.name_zh) || p.name} (${p.id})` });
  const region = regions.data?.items?.find((r) => r.id === form.values.region);
  return (
    <Page title={t("host.join.title")} about={t("host.join.about")}>
      {token ? (
        <>
          <Command token={token} />
          <Arrival token={token} />
          <Group>
            <Button variant="default" onClick={() => setToken(undefined)}>
              {t("host.join.another")}
            </Button>
          </Group>
        </>
      ) : (
        <Paper withBorder p="md" maw={760}>
          <form onSubmit={form.onSubmit((v) => make.mutate(v))}>
            <Stack>
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <TextInput label={t("host.name")} description={t("host.join.name")} maxLength={100} {...form.getInputProps("name")} />
                <TextInput label={t("host.rack")} description={t("host.join.rack")} maxLength={100} {...form.getInputProps("rack")} />
                <Select
                  label={t("host.region")}
                  description={t("host.join.region")}
                  clearable
                  data={(regions.data?.items ?? []).map(named)}
                  {...form.getInputProps("region")}
                  onChange={(v) => form.setValues({ region: v, zone: null })}
                />
                <Select label={t("host.zone")} description={t("host.join.zone")} clearable disabled={!region} data={(region?.zones ?? []).map(named)} {...form.getInputProps("zone")} />
              </SimpleGrid>
              {make.error && <ErrorPanel error={make.error} />}
              <Group>
                <Button type="submit" loading={make.isPending || hosts.isPending}>
                  {t("host.join.make")}
                </Button>
              </Group>
            </Stack>
          </form>
        </Paper>
      )}
    </Page>
  );
}

/** The command to run on the machine. Where agents reach the cloud only its operator knows. */
function Command({ token }: { token: Token }) {
  const { t } = useTranslation();
  const [address, setAddress] = useLocalStorage({ key: "suanli.agents", defaultValue: `${location.hostname}:7081`, getInitialValueInEffect: false });
  const whole = address.trim();
  const good = /^[A-Za-z0-9.:[\]-]+:\d{1,5}$/.test(whole);
  return (
    <Section title={t("host.join.run")} about={t("host.join.run_about")}>
      <TextInput maw={360} label={t("host.join.address")} description={t("host.join.address_about")} value={address} onChange={(e) => setAddress(e.currentTarget.value)} error={!good && t("host.join.address_bad")} />
      {good && <Copy text={`sudo suanli agent join ${whole} --token ${token.token}`} />}
      <Text size="sm" c="dimmed">
        {t("host.join.once")} <Time at={token.expires_at} relative />
      </Text>
    </Section>
  );
}

/** What came since the token was made. */
function Arrival({ token }: { token: Token }) {
  const { t } = useTranslation();
  // Identifiers grow with time: who joins now comes behind the last one.
  const came = useQuery({
    queryKey: ["hosts", "after", token.after],
    queryFn: ({ signal }) => data(api.GET("/v1/hosts", { params: { query: { cursor: token.after || undefined, limit: 20 } }, signal })),
    refetchInterval: 1_500,
  });
  const hosts = (came.data?.items ?? []).filter((h) => !token.name || h.name === token.name);
  return (
    <Section title={t("host.join.arrival")}>
      <div aria-live="polite">
        {came.error ? (
          <ErrorPanel error={came.error} retry={() => void came.refetch()} />
        ) : hosts.length === 0 ? (
          <Alert variant="light" title={t("host.join.waiting")}>
            {t("host.join.waiting_text")}
          </Alert>
        ) : (
          <Stack>
            {hosts.map((h) => (
              <Progress key={h.id} host={h} />
            ))}
          </Stack>
        )}
      </div>
    </Section>
  );
}

function Progress({ host: h }: { host: Host }) {
  const { t } = useTranslation();
  const test = testOf(h);
  const step = h.state === "listed" ? 4 : test ? 3 : h.hardware ? 2 : 1;
  return (
    <Paper withBorder p="md">
      <Group mb="md">
        <Text fw={600}>{h.name}</Text>
        <HostState host={h} />
        <Simulated simulated={h.simulated} />
        <Button component={Link} to={`/hosts/${h.id}`} size="xs" variant="default">
          {t("host.open")}
        </Button>
      </Group>
      <Timeline active={step - 1} bulletSize={18}>
        <Timeline.Item title={t("host.join.step.joined")}>
          <Text size="sm" c="dimmed">
            <Time at={h.created_at} relative />
          </Text>
        </Timeline.Item>
        <Timeline.Item title={t("host.join.step.hardware")}>
          {h.hardware && (
            <Text size="sm" c="dimmed">
              {[modelsOf(h), `${h.hardware.cpus} × ${h.hardware.cpu_model}`, h.hardware.os].filter(Boolean).join(" · ")}
            </Text>
          )}
        </Timeline.Item>
        <Timeline.Item title={t("host.join.step.test")}>
          {test ? <SelfTest test={test} /> : h.hardware && <Text size="sm" c="dimmed">{t("host.join.testing")}</Text>}
        </Timeline.Item>
        <Timeline.Item title={t("host.join.step.listed")}>
          {h.state !== "listed" && test && (
            <Text size="sm" c="dimmed">
              {h.reason || t(`host.state.${h.state}.means`)}
            </Text>
          )}
        </Timeline.Item>
      </Timeline>
    </Paper>
  );
}
