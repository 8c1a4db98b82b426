import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";

const colors: Record<string, string> = { running: "green", accepted: "blue", provisioning: "blue", starting: "blue", stopping: "yellow", stopped: "gray", interrupted: "orange", unreachable: "red", ending: "yellow", ended: "gray", failed: "red" };

/** The state of a lease, in words and colour. */
export function State({ state }: { state: string }) {
  const { t } = useTranslation();
  return (
    <Badge color={colors[state] ?? "gray"} variant="light" tt="none" style={{ flexShrink: 0 }}>
      {t(`lease.state.${state}`)}
    </Badge>
  );
}

/** No event leads out of these. */
export const over = (state: string) => state === "ended" || state === "failed";
/** Something is under way that the page shows the progress of. */
export const moving = (state: string) => ["accepted", "provisioning", "starting", "stopping", "ending"].includes(state);
