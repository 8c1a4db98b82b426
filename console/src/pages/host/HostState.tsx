import { Badge, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { GPU, Host } from "./hosts";

const colours: Record<Host["state"], string> = {
  listed: "green",
  unlisted: "gray",
  draining: "yellow",
  maintenance: "blue",
  joining: "blue",
  untested: "orange",
  degraded: "orange",
  not_ready: "orange",
  awaited: "orange",
  offline: "red",
  invalid: "red",
  refused: "red",
};

/** The state of a host, with what it means. */
export function HostState({ host }: { host: Pick<Host, "state" | "reason"> }) {
  const { t } = useTranslation();
  return (
    <Tooltip label={host.reason || t(`host.state.${host.state}.means`)} multiline maw={320} events={{ hover: true, focus: true, touch: true }}>
      <Badge color={colours[host.state]} variant="light" tt="none">
        {t(`host.state.${host.state}`)}
      </Badge>
    </Tooltip>
  );
}

/** Whether a GPU is fit to be let. */
export function GPUHealth({ gpu }: { gpu: GPU }) {
  const { t } = useTranslation();
  const health = gpu.present ? gpu.health : "gone";
  return (
    <Badge color={health === "healthy" ? "green" : health === "dirty" ? "orange" : "red"} variant="light" tt="none">
      {t(`host.health.${health}`)}
    </Badge>
  );
}
