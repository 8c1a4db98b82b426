import { Badge, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** Says that a GPU, or what is about one, is simulated. The word itself is the same in all languages. */
export function Simulated({ simulated }: { simulated?: boolean }) {
  const { t } = useTranslation();
  if (!simulated) return null;
  return (
    <Tooltip label={t("simulated.means")}>
      <Badge color="yellow" variant="light" size="sm" tt="none" style={{ flexShrink: 0 }}>
        simulated
      </Badge>
    </Tooltip>
  );
}
