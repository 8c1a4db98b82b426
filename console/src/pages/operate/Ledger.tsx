import { Alert, Button, List, Loader, Group, Stack, Table, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";

/** Proves the books, and names what is wrong in them. */
export function Ledger() {
  const { t } = useTranslation();
  const verify = useMutation({
    mutationFn: async () => {
      const report = await data(api.GET("/v1/operator/ledger/verify"));
      return { report, at: new Date().toISOString() };
    },
  });
  return (
    <Page
      title={t("nav.op.ledger")}
      about={t("op.ledger.about")}
      actions={
        <Button loading={verify.isPending} onClick={() => verify.mutate()}>
          {t("op.ledger.verify")}
        </Button>
      }
    >
      <div aria-live="polite">
        {verify.isPending ? (
          <Group>
            <Loader size="sm" role="status" aria-label={t("loading")} />
            <Text>{t("op.ledger.running")}</Text>
          </Group>
        ) : verify.error ? (
          <ErrorPanel error={verify.error} retry={() => verify.mutate()} />
        ) : verify.data ? (
          <Report report={verify.data.report} at={verify.data.at} />
        ) : (
          <Text c="dimmed">{t("op.ledger.not_yet")}</Text>
        )}
      </div>
    </Page>
  );
}

function Report({ report: r, at }: { report: Schema["LedgerReport"]; at: string }) {
  const { t } = useTranslation();
  const wrong = [...(r.mismatches ?? []).map((m) => ({ subject: [m.currency, m.path].filter(Boolean).join(" "), what: m.what })), ...(r.wrong ?? [])];
  return (
    <Stack>
      <Alert color={r.ok ? "green" : "red"} variant="light" title={t(r.ok ? "op.ledger.ok" : "op.ledger.wrong", { count: wrong.length })}>
        {r.ok ? t("op.ledger.ok_text") : wrong[0] ? `${wrong[0].subject}: ${wrong[0].what}` : ""}
        <Text size="xs" mt={4} component="div">
          <Time at={at} />
        </Text>
      </Alert>
      <Facts facts={(["accounts", "transfers", "leases", "charges", "invoices"] as const).map((k) => ({ name: t(`op.ledger.${k}`), value: r[k] }))} />
      {!!r.sums?.length && (
        <Section title={t("op.ledger.sums")}>
          <Table maw={520}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("op.account.currency")}</Table.Th>
                <Table.Th ta="right">{t("op.ledger.debits")}</Table.Th>
                <Table.Th ta="right">{t("op.ledger.credits")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {r.sums.map((s) => (
                <Table.Tr key={s.currency}>
                  <Table.Td>{s.currency}</Table.Td>
                  <Table.Td ta="right">
                    <Money amount={s.debits} currency={s.currency} />
                  </Table.Td>
                  <Table.Td ta="right">
                    <Money amount={s.credits} currency={s.currency} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Section>
      )}
      {wrong.length > 0 && (
        <Section title={t("op.ledger.all_wrong")}>
          <List type="ordered" size="sm">
            {wrong.map((w, i) => (
              <List.Item key={i}>
                <b>{w.subject}</b>: {w.what}
              </List.Item>
            ))}
          </List>
        </Section>
      )}
    </Stack>
  );
}
