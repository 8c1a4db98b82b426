import { Alert, Anchor, SimpleGrid, Stack, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { HostTable } from "../host/HostTable";
import { gpusOf, needsCare, quarantined, rentedGPUs, useHosts } from "../host/hosts";
import { Attention } from "./Attention";
import { FleetMap } from "./FleetMap";
import { Health } from "./Health";
import { Quarantine } from "./Quarantine";
import { Uptime } from "./Uptime";

/** How the cloud is: what runs, what is let, what has to be looked at. */
export function Overview() {
  const { t } = useTranslation();
  const hosts = useHosts();
  const all = hosts.data ?? [];
  const care = all.filter((h) => needsCare(h.state));
  const gpus = all.reduce((n, h) => n + h.total.gpus, 0);
  const rented = all.reduce((n, h) => n + rentedGPUs(h), 0);
  const fenced = all.reduce((n, h) => n + gpusOf(h).filter(quarantined).length, 0);
  return (
    <Page title={t("op.overview.title")} about={t("op.overview.about")}>
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Health />
        <Uptime />
      </SimpleGrid>
      <Attention />
      {hosts.error ? (
        <ErrorPanel error={hosts.error} retry={() => void hosts.refetch()} />
      ) : (
        <>
          <Section title={t("op.fleet.title")} actions={<Anchor component={Link} to="/operate/fleet" size="sm">{t("op.fleet.all")}</Anchor>}>
            <Facts
              loading={hosts.isPending}
              facts={[
                { name: t("host.title"), value: all.length },
                { name: t("host.count.listed"), value: all.filter((h) => h.state === "listed").length },
                { name: t("host.count.care"), value: care.length },
                { name: t("host.count.gpus"), value: gpus },
                { name: t("host.count.rented"), value: gpus ? `${rented} (${Math.round((rented * 100) / gpus)} %)` : rented },
                { name: t("op.count.quarantined"), value: fenced },
              ]}
            />
            <FleetMap hosts={all} loading={hosts.isPending} />
          </Section>
          <SimpleGrid cols={{ base: 1, xl: 2 }}>
            <Section title={t("op.care.title")}>
              {!hosts.isPending && care.length === 0 ? <Calm text={t("op.care.none")} /> : <Stack gap={0}><HostTable label={t("op.care.title")} rows={care} loading={hosts.isPending} /></Stack>}
            </Section>
            <Section title={t("op.quarantine.title")}>{!hosts.isPending && fenced === 0 ? <Calm text={t("op.quarantine.none")} /> : <Quarantine hosts={all} loading={hosts.isPending} />}</Section>
          </SimpleGrid>
        </>
      )}
    </Page>
  );
}

function Calm({ text }: { text: string }) {
  return (
    <Alert color="green" variant="light">
      <Text size="sm">{text}</Text>
    </Alert>
  );
}
