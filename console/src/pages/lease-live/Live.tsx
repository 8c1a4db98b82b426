import { Tabs } from "@mantine/core";
import { IconChartAreaLine, IconFolder, IconTerminal2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";
import { Skeleton } from "@mantine/core";
import { api, data } from "../../api/client";
import { useMay } from "../../me";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Page } from "../../ui/Page";
import type { View } from "./routes";

const Terminal = lazy(() => import("./Terminal").then((m) => ({ default: m.Terminal })));
const Graphs = lazy(() => import("./Graphs").then((m) => ({ default: m.Graphs })));
const Files = lazy(() => import("./Files").then((m) => ({ default: m.Files })));

const icons = { terminal: IconTerminal2, graphs: IconChartAreaLine, files: IconFolder };

/** The inside of a lease on a page of its own, which can be opened in a tab beside. */
export function Live() {
  const { t } = useTranslation();
  const { leaseId } = useParams({ strict: false }) as { leaseId: string };
  const { view } = useSearch({ strict: false }) as { view?: View };
  const navigate = useNavigate();
  const enter = useMay("lease:enter");
  const lease = useQuery({
    queryKey: ["lease", leaseId],
    queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}", { params: { path: { lease_id: leaseId } }, signal })),
    refetchInterval: 5_000,
  });
  const views: View[] = enter ? ["terminal", "graphs", "files"] : ["graphs"];
  const shown = view && views.includes(view) ? view : views[0]!;
  const name = lease.data?.name || leaseId;
  const waits = (
    <Skeleton h={320} radius="md" />
  );
  const running = lease.data?.state === "running";
  return (
    <Page title={t("live.title", { name })} about={lease.data && `${lease.data.gpu_count} × ${lease.data.gpu_model} · ${lease.data.image}`}>
      {lease.error && !lease.data ? (
        <ErrorPanel error={lease.error} retry={() => void lease.refetch()} />
      ) : !lease.data ? (
        waits
      ) : (
        <Tabs value={shown} keepMounted={false} onChange={(v) => void navigate({ to: ".", search: { view: v as View }, replace: true })}>
          <Tabs.List mb="sm">
            {views.map((v) => {
              const Icon = icons[v];
              return (
                <Tabs.Tab key={v} value={v} leftSection={<Icon size={16} />}>
                  {t(`live.view.${v}`)}
                </Tabs.Tab>
              );
            })}
          </Tabs.List>
          <Tabs.Panel value={shown}>
            <Suspense fallback={waits}>
              {shown === "graphs" ? (
                <Graphs leaseId={lease.data.id} />
              ) : !running ? (
                <Empty title={t("live.closed.title")} text={t("live.closed.text")} />
              ) : shown === "files" ? (
                <Files leaseId={lease.data.id} />
              ) : (
                <Terminal leaseId={lease.data.id} height="calc(100dvh - 290px)" />
              )}
            </Suspense>
          </Tabs.Panel>
        </Tabs>
      )}
    </Page>
  );
}
