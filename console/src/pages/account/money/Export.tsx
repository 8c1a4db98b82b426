import "@mantine/dates/styles.layer.css";
import { Button, Group, Paper, SegmentedControl, Stack, Text, Title } from "@mantine/core";
import { MonthPickerInput } from "@mantine/dates";
import dayjs from "dayjs";
import "dayjs/locale/zh-cn";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useDownload } from "./Invoices";

/** A month's costs in the format of the FinOps Foundation. */
export function Export() {
  const { t, i18n } = useTranslation();
  const documents = useDownload();
  const [month, setMonth] = useState<string | null>(dayjs().format("YYYY-MM-01"));
  const [format, setFormat] = useState("csv");
  const period = month?.slice(0, 7) ?? "";
  const path = `/v1/exports/focus?period=${period}&format=${format}`;
  return (
    <Paper withBorder p="md" maw={640} component="section">
      <Stack>
        <Title order={2} size="h4">
          {t("export.title")}
        </Title>
        <Text size="sm">{t("export.text")}</Text>
        <Group align="flex-end">
          <MonthPickerInput label={t("export.month")} w={200} value={month} onChange={setMonth} maxDate={dayjs().format("YYYY-MM-DD")} locale={i18n.language === "zh-CN" ? "zh-cn" : "en"} valueFormat="YYYY-MM" />
          <SegmentedControl aria-label={t("export.format")} value={format} onChange={setFormat} data={[{ value: "csv", label: "CSV" }, { value: "jsonl", label: "JSON Lines" }]} />
          <Button disabled={!period} loading={documents.pending === path} onClick={() => void documents.get(path, `focus-${period}.${format}`)}>
            {t("export.download")}
          </Button>
        </Group>
      </Stack>
    </Paper>
  );
}
