import { Group, Paper, SimpleGrid, Skeleton, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { ErrorPanel } from "../../ui/errors";
import { duration, Time } from "../../ui/format";

/** How often the control plane itself was there. */
export function Uptime() {
  const { t, i18n } = useTranslation();
  const status = useQuery({ queryKey: ["status"], queryFn: ({ signal }) => data(api.GET("/v1/status", { signal })), refetchInterval: 60_000 });
  const percent = (ppm: number) => `${new Intl.NumberFormat(i18n.language, { maximumFractionDigits: 4 }).format(ppm / 10_000)} %`;
  const gap = status.data?.gaps?.[0];
  return (
    <Paper withBorder p="md">
      <Title order={2} size="h4" mb="xs">
        {t("op.uptime.title")}
      </Title>
      {status.error ? (
        <ErrorPanel error={status.error} retry={() => void status.refetch()} />
      ) : !status.data ? (
        <Skeleton height={70} />
      ) : (
        <>
          <SimpleGrid cols={{ base: 2, sm: 4 }}>
            {(status.data.windows ?? []).map((w) => (
              <div key={w.days}>
                <Text size="xs" c="dimmed">
                  {t("op.uptime.days", { count: w.days })}
                </Text>
                <Text fw={600}>{w.measured_minutes ? percent(w.availability_ppm) : t("op.uptime.unmeasured")}</Text>
              </div>
            ))}
          </SimpleGrid>
          <Group mt="xs" gap={4}>
            <Text size="sm" c="dimmed" component="div">
              {gap ? (
                <>
                  {t("op.uptime.last_gap", { length: duration((Date.parse(gap.until) - Date.parse(gap.from)) / 1000, i18n.language) })} <Time at={gap.from} />
                </>
              ) : (
                t("op.uptime.no_gap")
              )}
            </Text>
          </Group>
        </>
      )}
    </Paper>
  );
}
