import { Alert, List, ScrollArea, Stack, Table, Text, VisuallyHidden } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { duration, money, Money, Time } from "../../../ui/format";

/** A quote with every item: what is paid for each meter, and what is not in it. */
export function QuoteTable({ quote, seconds }: { quote: Schema["Quote"]; seconds: number }) {
  const { t, i18n } = useTranslation();
  const m = (amount: string) => money(amount, quote.currency, i18n.language);
  const columns = ["per_hour", "per_day", "per_month", "for_run"] as const;
  return (
    <Stack gap="sm">
      <ScrollArea type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("quote.title") }}>
        <Table verticalSpacing={6} horizontalSpacing={6} fz="sm">
          <caption>
            <VisuallyHidden>{t("quote.title")}</VisuallyHidden>
          </caption>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("quote.item")}</Table.Th>
              {columns.map((c) => (
                <Table.Th key={c} ta="right" style={{ whiteSpace: "nowrap" }}>
                  {c === "for_run" ? t("quote.for_run", { time: duration(seconds, i18n.language) }) : t(`quote.${c}`)}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {(quote.lines ?? []).map((line) => (
              <Table.Tr key={line.meter}>
                <Table.Td>
                  <Text size="sm">{t(`meter.${line.meter}`)}</Text>
                  <Text size="xs" c="dimmed">
                    {t("quote.rate", { rate: m(line.rate), unit: t(`rate_unit.${line.unit}`) })}
                  </Text>
                  {line.listed_rate && (
                    <Text size="xs" c="dimmed">
                      {t("quote.listed", { rate: m(line.listed_rate) })}
                    </Text>
                  )}
                </Table.Td>
                {columns.map((c) => (
                  <Table.Td key={c} ta="right" className="figure">
                    {m(line[c])}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
          <Table.Tfoot>
            <Table.Tr>
              <Table.Th scope="row">{t("quote.total")}</Table.Th>
              {columns.map((c) => (
                <Table.Th key={c} ta="right" className="figure">
                  {m(quote[c])}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Tfoot>
        </Table>
      </ScrollArea>
      <Text size="sm">
        {t("quote.stopped")} <Money amount={quote.price_per_hour_by_state.stopped ?? "0"} currency={quote.currency} per="hour" />
        {" · "}
        {t(`granularity.${quote.granularity}`, { time: duration(quote.minimum_seconds, i18n.language) })}
      </Text>
      {(quote.not_included ?? []).length > 0 && (
        <div>
          <Text size="sm" fw={500}>
            {t("quote.not_included")}
          </Text>
          <List size="sm">
            {(quote.not_included ?? []).map((c) => (
              <List.Item key={c}>{t(`not_included.${c}`)}</List.Item>
            ))}
          </List>
        </div>
      )}
      {quote.price_list && (
        <Alert variant="light" color="green" title={t("quote.own_price")}>
          {t("quote.own_price.text", { name: quote.price_list.name })}
        </Alert>
      )}
      {(quote.available_after_seconds ?? 0) > 0 && <Alert variant="light">{t("quote.waits", { time: duration(quote.available_after_seconds ?? 0, i18n.language) })}</Alert>}
      <Text size="xs" c="dimmed">
        {t("quote.frozen")} <Time at={quote.valid_until} />
      </Text>
    </Stack>
  );
}
