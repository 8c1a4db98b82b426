import { Alert, Skeleton, Stack, Tabs } from "@mantine/core";
import { useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useMay, useMe } from "../../me";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { mib, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Simulated } from "../../ui/simulated";
import { useUrlText } from "../../ui/urlstate";
import { HostActions } from "./HostActions";
import { HostState } from "./HostState";
import { HostGPUs } from "./HostGPUs";
import { HostPrices } from "./HostPrices";
import { needsCare, rentedGPUs, testOf, useHost } from "./hosts";
import { Occupancy } from "./Occupancy";
import { SelfTest } from "./SelfTest";

/** One host: what it is, how it is, what it earns by. */
export function HostPage() {
  const { t, i18n } = useTranslation();
  const { hostId } = useParams({ strict: false }) as { hostId: string };
  const host = useHost(hostId);
  const me = useMe();
  const mayBill = useMay("billing:read");
  const [tab, setTab] = useUrlText("tab", "gpus");
  if (host.error && !host.data) {
    return (
      <Page title={t("host.one")}>
        <ErrorPanel error={host.error} retry={() => void host.refetch()} />
      </Page>
    );
  }
  const h = host.data;
  // Earnings are of one's own account, whoever may read the host.
  const earns = mayBill && h?.account_id === me?.account.id;
  return (
    <Page title={h?.name ?? t("host.one")} about={h ? `${h.region} / ${h.zone}${h.rack ? ` / ${h.rack}` : ""} · ${h.id}` : hostId} actions={h && <HostActions host={h} />}>
      {h?.reason && (
        <Alert color={needsCare(h.state) ? "orange" : "blue"} variant="light" title={t(`host.state.${h.state}.means`)}>
          {h.reason}
        </Alert>
      )}
      {h?.maintenance && (
        <Alert color="blue" variant="light" title={t("host.maintenance.announced")}>
          <Time at={h.maintenance.from} /> – <Time at={h.maintenance.until} />
        </Alert>
      )}
      <Facts
        loading={!h}
        facts={
          h
            ? [
                { name: t("host.state"), value: <HostState host={h} /> },
                { name: t("host.rented"), value: <>{`${rentedGPUs(h)} / ${h.total.gpus} `}<Simulated simulated={h.simulated} /></> },
                { name: t("host.free_rest"), long: true, value: t("host.free_rest_value", { cpus: h.free.cpu_millis / 1000, memory: mib(h.free.memory_mib, i18n.language), disk: mib(h.free.disk_mib, i18n.language) }) },
                { name: t("host.reliability"), value: `${h.reliability_percent} %` },
                { name: t("host.seen"), value: <Time at={h.last_seen_at} relative /> },
                { name: t("host.system"), long: true, value: h.hardware ? `${h.hardware.os} · ${h.hardware.runtime}${h.hardware.driver ? ` · ${t("host.driver", { version: h.hardware.driver })}` : ""}` : "–" },
              ]
            : ["host.state", "host.rented", "host.free_rest", "host.reliability", "host.seen", "host.system"].map((k) => ({ name: t(k), value: "" }))
        }
      />
      <Tabs value={tab} onChange={(v) => setTab(v ?? "gpus")} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="gpus">{t("host.tab.gpus")}</Tabs.Tab>
          <Tabs.Tab value="test">{t("host.tab.test")}</Tabs.Tab>
          <Tabs.Tab value="prices">{t("host.tab.prices")}</Tabs.Tab>
          {earns && <Tabs.Tab value="occupancy">{t("host.tab.occupancy")}</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="gpus">{h ? <HostGPUs host={h} /> : <Skeleton height={200} />}</Tabs.Panel>
        <Tabs.Panel value="test">
          <Stack>{h ? <SelfTest test={testOf(h)} /> : <Skeleton height={200} />}</Stack>
        </Tabs.Panel>
        <Tabs.Panel value="prices">{h ? <HostPrices host={h} /> : <Skeleton height={200} />}</Tabs.Panel>
        {earns && <Tabs.Panel value="occupancy">{h && <Occupancy host={h} />}</Tabs.Panel>}
      </Tabs>
    </Page>
  );
}
