import { Group, Paper, Skeleton, Stack, Table, Text } from "@mantine/core";
import { MonthPickerInput } from "@mantine/dates";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { useMe } from "../../me";
import { Dates, dayIn } from "../../ui/Dates";
import { ErrorPanel } from "../../ui/errors";
import { Money } from "../../ui/format";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { useUrlText } from "../../ui/urlstate";

/** A provider's balance over a month: where it began, what changed it, where it ended. */
export function Statements() {
  const { t } = useTranslation();
  const zone = useMe()?.account.time_zone ?? "UTC";
  const [month, setMonth] = useUrlText("month", dayIn(zone).slice(0, 7));
  const list = useQuery({ queryKey: ["earnings", "statements", month], queryFn: ({ signal }) => data(api.GET("/v1/earnings/statements", { params: { query: { month } }, signal })) });
  const items = list.data?.items ?? [];
  return (
    <Section
      title={t("statement.title")}
      about={t("statement.about")}
      actions={
        <Dates>
          <MonthPickerInput label={t("statement.month")} value={`${month}-01`} maxDate={dayIn(zone)} onChange={(v) => v && setMonth(v.slice(0, 7))} w={180} />
        </Dates>
      }
    >
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : list.isPending ? (
        <Skeleton height={160} />
      ) : items.length === 0 ? (
        <Text c="dimmed">{t("statement.none")}</Text>
      ) : (
        <Stack>
          {items.map((s) => (
            <Paper key={s.currency} withBorder p="md" style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={`${t("statement.title")} ${s.currency}`}>
              <Table verticalSpacing={4}>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("statement.what")}</Table.Th>
                    <Table.Th>{t("statement.reference")}</Table.Th>
                    <Table.Th>{t("earn.host")}</Table.Th>
                    <Table.Th ta="right">{t("payout.amount")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  <Table.Tr>
                    <Table.Th colSpan={3}>{t("earned.opening")}</Table.Th>
                    <Table.Td ta="right">
                      <Money amount={s.opening} currency={s.currency} />
                    </Table.Td>
                  </Table.Tr>
                  {(s.lines ?? []).map((l) => (
                    <Table.Tr key={`${l.code}/${l.reference}/${l.host_id}/${l.simulated}`}>
                      <Table.Td>
                        <Group gap={6} wrap="nowrap">
                          {t(`statement.code.${l.code}`, { defaultValue: l.code })}
                          <Simulated simulated={l.simulated} />
                        </Group>
                      </Table.Td>
                      <Table.Td>{l.reference}</Table.Td>
                      <Table.Td>{l.host_id ?? "–"}</Table.Td>
                      <Table.Td ta="right">
                        <Money amount={l.amount} currency={s.currency} />
                      </Table.Td>
                    </Table.Tr>
                  ))}
                  <Table.Tr>
                    <Table.Th colSpan={3}>{t("earned.closing")}</Table.Th>
                    <Table.Td ta="right" fw={700}>
                      <Money amount={s.closing} currency={s.currency} />
                    </Table.Td>
                  </Table.Tr>
                </Table.Tbody>
              </Table>
            </Paper>
          ))}
        </Stack>
      )}
    </Section>
  );
}
