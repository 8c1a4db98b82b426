import { Alert, Button, Grid, Group, Skeleton, Stack, Tabs } from "@mantine/core";
import { IconAlertTriangle, IconPlayerPlay, IconPlayerStop, IconRefresh, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { useMay } from "../../me";
import { ButtonLink } from "../../ui/ButtonLink";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Simulated } from "../../ui/simulated";
import { Access } from "./lease/Access";
import { Cost } from "./lease/Cost";
import { Facts } from "./lease/Facts";
import { History } from "./lease/History";
import { liveTabs, LiveTab } from "./lease/LiveTab";
import { useLeaseChanges } from "./lease/live";
import { Logs } from "./lease/Logs";
import { Monthly } from "./lease/Monthly";
import { Settings } from "./lease/Settings";
import { Starting } from "./lease/Starting";
import { moving, over, State } from "./lease/State";
import { useVerbs, verbsOf } from "./lease/useVerbs";

const icons = { stop: IconPlayerStop, start: IconPlayerPlay, restart: IconRefresh, end: IconTrash };

/** Everything about one lease. */
export function Lease() {
  const { t } = useTranslation();
  const { leaseId } = useParams({ strict: false }) as { leaseId: string };
  const search = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const live = useLeaseChanges();
  const mayChange = useMay("lease:write");
  const mayEnter = useMay("lease:enter");
  const mayBilling = useMay("billing:read");
  const verbs = useVerbs();
  const lease = useQuery({
    queryKey: ["lease", leaseId],
    queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}", { params: { path: { lease_id: leaseId } }, signal })),
    // Changes come by themselves; how far a pull is, and what is used, do not.
    refetchInterval: (q) => (!q.state.data || moving(q.state.data.state) ? 1_000 : over(q.state.data.state) ? false : live ? 5_000 : 3_000),
  });
  const l = lease.data;
  if (lease.error && !l) {
    return (
      <Page title={t("lease.title")}>
        <ErrorPanel error={lease.error} retry={() => void lease.refetch()} />
        <Group>
          <ButtonLink to="/leases" variant="default">
            {t("leases.title")}
          </ButtonLink>
        </Group>
      </Page>
    );
  }
  if (!l) {
    return (
      <Page title={t("lease.title")}>
        <Skeleton h={40} />
        <Skeleton h={320} role="status" aria-label={t("loading")} />
      </Page>
    );
  }
  const tabs = ["overview", ...(l.state === "running" && mayEnter ? liveTabs : []), ...(mayEnter ? ["logs"] : []), ...(mayBilling ? ["cost"] : []), ...(l.plan === "monthly" ? ["monthly"] : []), "history", ...(mayChange && !over(l.state) ? ["settings"] : [])];
  const tab = tabs.includes(search.tab ?? "") ? search.tab! : "overview";
  return (
    <Page
      title={l.name || l.id}
      about={l.gpu_model ? `${l.gpu_count} × ${l.gpu_model}` : t("market.cpu_only")}
      actions={
        <>
          <Simulated simulated={l.simulated} />
          <State state={l.state} />
          {mayChange &&
            verbsOf(l).map((v) => {
              const Icon = icons[v];
              return (
                <Button key={v} size="xs" variant={v === "start" ? "filled" : v === "end" ? "light" : "default"} color={v === "end" ? "red" : undefined} leftSection={<Icon size={14} />} loading={verbs.pending?.verb === v} onClick={() => void verbs.ask(v, l)}>
                  {t(`lease.${v}`)}
                </Button>
              );
            })}
        </>
      }
    >
      <Starting lease={l} />
      {l.interrupt_at && (
        <Alert color="orange" icon={<IconAlertTriangle />} title={t("lease.notice")}>
          <Group gap="xs">
            <span>
              {t(l.interrupt_reason === "on_demand" ? "lease.notice.on_demand" : "lease.notice.outbid")} <Time at={l.interrupt_at} relative />
            </span>
            {l.interrupt_reason !== "on_demand" && (
              <ButtonLink to="/spot" search={{ tab: "bids" }} size="compact-sm" variant="default">
                {t("lease.notice.raise")}
              </ButtonLink>
            )}
          </Group>
        </Alert>
      )}
      {l.message && !moving(l.state) && l.state !== "running" && (
        <Alert color={l.state === "failed" || l.state === "unreachable" ? "red" : "gray"} variant="light" title={t("lease.why")} style={{ overflowWrap: "anywhere" }}>
          {l.message}
          {l.exit_code !== undefined && ` (${t("lease.exit_code", { code: l.exit_code })})`}
        </Alert>
      )}
      <Tabs value={tab} onChange={(v) => void navigate({ to: "/leases/$leaseId", params: { leaseId }, search: v === "overview" || !v ? {} : { tab: v }, replace: true })} keepMounted={false}>
        <Tabs.List mb="md" aria-label={t("lease.parts")}>
          {tabs.map((x) => (
            <Tabs.Tab key={x} value={x}>
              {t(`lease.tab.${x}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="overview">
          <Grid>
            <Grid.Col span={{ base: 12, lg: 6 }}>
              <Facts lease={l} />
            </Grid.Col>
            <Grid.Col span={{ base: 12, lg: 6 }}>
              <Stack>{mayEnter && !over(l.state) && <Access lease={l} />}</Stack>
            </Grid.Col>
          </Grid>
        </Tabs.Panel>
        {liveTabs.map((x) => (
          <Tabs.Panel key={x} value={x}>
            <LiveTab tab={x} leaseId={l.id} />
          </Tabs.Panel>
        ))}
        <Tabs.Panel value="logs">
          <Logs lease={l} />
        </Tabs.Panel>
        <Tabs.Panel value="cost">
          <Cost lease={l} />
        </Tabs.Panel>
        <Tabs.Panel value="monthly">
          <Monthly leaseId={l.id} />
        </Tabs.Panel>
        <Tabs.Panel value="history">
          <History leaseId={l.id} />
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <Settings key={l.id} lease={l} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
