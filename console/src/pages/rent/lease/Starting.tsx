import { Alert, Paper, Progress, Stack, Stepper, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { mib, Time } from "../../../ui/format";

const steps = ["accepted", "pulling", "creating", "running"] as const;

/** How far the start of a lease is. */
export function Starting({ lease }: { lease: Schema["Lease"] }) {
  const { t, i18n } = useTranslation();
  const p = lease.progress;
  const starting = lease.state === "accepted" || lease.state === "provisioning" || lease.state === "starting";
  if (lease.state === "accepted" && lease.waits_until) {
    return (
      <Alert variant="light" title={t("lease.waits")}>
        {t("lease.waits.text")} <Time at={lease.waits_until} relative />
      </Alert>
    );
  }
  if (!starting) return null;
  const at = Math.max(0, steps.findIndex((s) => s === p?.phase));
  const percent = p && p.total_bytes > 0 ? Math.min(100, Math.trunc((p.pulled_bytes / p.total_bytes) * 100)) : 0;
  return (
    <Paper withBorder p="md" role="status" aria-live="polite">
      <Stack gap="sm">
        <Stepper active={at} size="sm" iconSize={28} wrap>
          {steps.map((s) => (
            <Stepper.Step key={s} label={t(`phase.${s}`)} loading={s === steps[at]} />
          ))}
        </Stepper>
        {p?.phase === "pulling" && (
          <div>
            <Progress value={percent} animated aria-label={t("phase.pulling")} />
            <Text size="sm" c="dimmed" mt={4} className="figure">
              {p.total_bytes > 0 ? `${mib(Math.trunc(p.pulled_bytes / 1048576), i18n.language)} / ${mib(Math.trunc(p.total_bytes / 1048576), i18n.language)} · ${percent} %` : mib(Math.trunc(p.pulled_bytes / 1048576), i18n.language)}
            </Text>
          </div>
        )}
      </Stack>
    </Paper>
  );
}
