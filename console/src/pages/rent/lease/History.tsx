import { Paper, Skeleton, Text, Timeline } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";
import { Time } from "../../../ui/format";
import { State } from "./State";

/** What happened to a lease, newest first. */
export function History({ leaseId }: { leaseId: string }) {
  const { t } = useTranslation();
  const history = useQuery({ queryKey: ["lease", leaseId, "history"], queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}/history", { params: { path: { lease_id: leaseId } }, signal })) });
  if (history.error) return <ErrorPanel error={history.error} retry={() => void history.refetch()} />;
  if (!history.data) return <Skeleton h={200} role="status" aria-label={t("loading")} />;
  const changes = [...(history.data.items ?? [])].reverse();
  return (
    <Paper withBorder p="md">
      <Timeline bulletSize={14} lineWidth={2} active={changes.length}>
        {changes.map((c) => (
          <Timeline.Item key={c.id} title={t(`lease_event.${c.event}`)}>
            <State state={c.to} />
            {c.message && (
              <Text size="sm" style={{ overflowWrap: "anywhere" }}>
                {c.message}
              </Text>
            )}
            <Text size="xs" c="dimmed">
              <Time at={c.at} />
            </Text>
          </Timeline.Item>
        ))}
      </Timeline>
    </Paper>
  );
}
