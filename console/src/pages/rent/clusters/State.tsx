import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { colors, runColors } from "./search";

/** The state of a cluster, in words and colour. */
export function ClusterState({ state }: { state: string }) {
  const { t } = useTranslation();
  return (
    <Badge color={colors[state] ?? "gray"} variant="light" tt="none" style={{ flexShrink: 0 }}>
      {t(`cluster.state.${state}`)}
    </Badge>
  );
}

/** The state of a run on a cluster. */
export function RunState({ state }: { state: string }) {
  const { t } = useTranslation();
  return (
    <Badge color={runColors[state] ?? "gray"} variant="light" tt="none" style={{ flexShrink: 0 }}>
      {t(`cluster.run.state.${state}`)}
    </Badge>
  );
}
