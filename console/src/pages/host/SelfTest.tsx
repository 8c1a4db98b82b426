import { Alert, List, Text, ThemeIcon } from "@mantine/core";
import { IconCheck, IconMinus, IconX } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../api/client";

/** What a host proved before it was let, and what it did not. */
export function SelfTest({ test }: { test?: Schema["SelfTest"] }) {
  const { t } = useTranslation();
  if (!test) return <Text c="dimmed">{t("host.test.none")}</Text>;
  const checks = [...(test.checks ?? [])].sort((a, b) => rank(a) - rank(b));
  const failed = checks.filter((c) => !c.passed && !c.skipped);
  return (
    <>
      <Alert color={test.passed ? "green" : "red"} variant="light" title={t(test.passed ? "host.test.passed" : "host.test.failed", { count: failed.length })}>
        <Text size="sm">{t("host.test.speeds", { read: test.disk_read_mbps, write: test.disk_write_mbps, down: test.net_down_mbps, up: test.net_up_mbps })}</Text>
      </Alert>
      <List spacing="xs" listStyleType="none" center={false} styles={{ itemWrapper: { alignItems: "flex-start" } }}>
        {checks.map((c) => (
          <List.Item
            key={c.name}
            icon={
              <ThemeIcon size={22} radius="xl" variant="light" color={c.skipped ? "gray" : c.passed ? "green" : "red"}>
                {c.skipped ? <IconMinus size={14} /> : c.passed ? <IconCheck size={14} /> : <IconX size={14} />}
              </ThemeIcon>
            }
          >
            <Text size="sm" fw={600}>
              {`${t(`host.check.${c.name}`, { defaultValue: c.name })} · ${t(c.skipped ? "host.test.skipped_one" : c.passed ? "host.test.passed_one" : "host.test.failed_one")}`}
            </Text>
            {c.detail && (
              <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                {c.detail}
              </Text>
            )}
          </List.Item>
        ))}
      </List>
    </>
  );
}

// What failed is read first.
const rank = (c: Schema["SelfTestCheck"]) => (c.skipped ? 1 : c.passed ? 2 : 0);
