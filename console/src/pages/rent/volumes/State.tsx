import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { colors } from "./search";

/** The state of a volume, in words and colour. */
export function VolumeState({ state }: { state: string }) {
  const { t } = useTranslation();
  return (
    <Badge color={colors[state] ?? "gray"} variant="light" tt="none" style={{ flexShrink: 0 }}>
      {t(`volume.state.${state}`)}
    </Badge>
  );
}
