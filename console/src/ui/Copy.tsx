import { ActionIcon, Code, CopyButton, Group, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

/** A text to be copied: an identifier, or a command. */
export function Copy({ text, label }: { text: string; label?: string }) {
  const { t } = useTranslation();
  return (
    <Group gap={4} wrap="nowrap" maw="100%">
      <Code style={{ overflowWrap: "anywhere" }}>{label ?? text}</Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? t("action.copied") : t("action.copy")}>
            <ActionIcon variant="subtle" size="sm" color={copied ? "green" : "gray"} onClick={copy} aria-label={t("action.copy")}>
              {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Group>
  );
}
