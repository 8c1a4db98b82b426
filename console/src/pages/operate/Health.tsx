import { Badge, Group, Paper, Skeleton, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { OfflineError } from "../../api/client";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";

type Ready = { ready: boolean; checks: Record<string, string>; time: string };

// It is no part of the API, and it answers 503 with the same body when something is
// not as it should be.
async function readReady(signal: AbortSignal): Promise<Ready> {
  try {
    return (await (await fetch("/readyz", { signal })).json()) as Ready;
  } catch (error) {
    throw signal.aborted ? error : new OfflineError(error);
  }
}

/** Whether the control plane is ready, and each thing that it needs. */
export function Health() {
  const { t } = useTranslation();
  const ready = useQuery({ queryKey: ["readyz"], queryFn: ({ signal }) => readReady(signal), refetchInterval: 5_000 });
  return (
    <Paper withBorder p="md">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h4">
          {t("op.health.title")}
        </Title>
        {ready.data && (
          <Badge color={ready.data.ready ? "green" : "red"} variant="light" tt="none" size="lg">
            {t(ready.data.ready ? "op.health.ready" : "op.health.not_ready")}
          </Badge>
        )}
      </Group>
      {ready.error ? (
        <ErrorPanel error={ready.error} retry={() => void ready.refetch()} />
      ) : !ready.data ? (
        <Skeleton height={70} />
      ) : (
        <>
          <Group gap="xs" mb="xs">
            {Object.entries(ready.data.checks).map(([name, state]) => (
              <Badge key={name} color={state === "ok" ? "green" : "red"} variant="light" tt="none">
                {`${t(`op.health.${name}`, { defaultValue: name })}: ${state === "ok" ? t("op.health.ok") : state}`}
              </Badge>
            ))}
          </Group>
          <Text size="sm" c="dimmed">
            {t("op.health.at")} <Time at={ready.data.time} />
          </Text>
        </>
      )}
    </Paper>
  );
}
