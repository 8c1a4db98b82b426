import { Alert, Badge, Button, Group, Skeleton, Stack, Table, Text, TextInput } from "@mantine/core";
import { MonthPickerInput } from "@mantine/dates";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMe } from "../../me";
import { Dates, dayIn } from "../../ui/Dates";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { FormButton } from "../../ui/FormDialog";
import { duration, Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { useUrlText } from "../../ui/urlstate";

type Evidence = Schema["SLAEvidence"];

/** A lease's availability in a month, with the evidence; outages wait here for confirmation. */
export function Levels() {
  const { t } = useTranslation();
  const zone = useMe()?.account.time_zone ?? "UTC";
  const [leaseId, setLease] = useUrlText("lease");
  const [month, setMonth] = useUrlText("month", dayIn(zone).slice(0, 7));
  const form = useForm({ initialValues: { lease: leaseId } });
  return (
    <Page title={t("nav.op.sla")} about={t("op.sla.about")}>
      <form onSubmit={form.onSubmit((v) => setLease(v.lease.trim()))}>
        <Dates>
          <Group align="flex-end">
            <TextInput label={t("op.sla.lease")} w={320} maw="100%" {...form.getInputProps("lease")} />
            <MonthPickerInput label={t("statement.month")} value={`${month}-01`} maxDate={dayIn(zone)} onChange={(v) => v && setMonth(v.slice(0, 7))} w={180} />
            <Button type="submit">{t("op.sla.show")}</Button>
          </Group>
        </Dates>
      </form>
      {leaseId ? <OfLease leaseId={leaseId} month={month} /> : <Empty title={t("op.sla.empty.title")} text={t("op.sla.empty.text")} />}
    </Page>
  );
}

function OfLease({ leaseId, month }: { leaseId: string; month: string }) {
  const { t, i18n } = useTranslation();
  const sla = useQuery({
    queryKey: ["sla", leaseId, month],
    queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}/sla", { params: { path: { lease_id: leaseId }, query: { month } }, signal })),
  });
  if (sla.error) return <ErrorPanel error={sla.error} retry={() => void sla.refetch()} />;
  if (!sla.data) return <Skeleton height={260} />;
  const s = sla.data;
  const percent = new Intl.NumberFormat(i18n.language, { maximumFractionDigits: 4 }).format(s.availability_ppm / 10_000);
  return (
    <Stack>
      <Facts
        facts={[
          { name: t("op.sla.availability"), value: <>{`${percent} % `}<Simulated simulated={s.simulated} /></> },
          { name: t("op.sla.down"), value: duration(s.down_seconds, i18n.language) },
          { name: t("op.sla.promised"), value: duration(s.promised_seconds, i18n.language) },
          { name: t("op.sla.charge"), value: <Money amount={s.charge} currency={s.currency} /> },
          { name: t("op.sla.credit"), value: <Money amount={s.credit} currency={s.currency} /> },
          { name: t(s.closed_at ? "op.sla.closed" : "op.sla.closes"), value: <Time at={s.closed_at ?? s.closes_at} /> },
        ]}
      />
      {!!s.uncorroborated?.length && (
        <Section title={t("op.sla.unconfirmed")} about={t("op.sla.unconfirmed_about")}>
          {s.uncorroborated.map((e) => (
            <Alert key={`${e.start}/${e.reference}`} color="orange" variant="light">
              <Group justify="space-between">
                <Text size="sm" component="div">
                  <Time at={e.start} /> – <Time at={e.end} /> · {e.reference}
                </Text>
                {!s.closed_at && <Confirm leaseId={leaseId} evidence={e} />}
              </Group>
            </Alert>
          ))}
        </Section>
      )}
      <Section title={t("op.sla.outages")}>
        {s.outages?.length ? <Evidences label={t("op.sla.outages")} rows={s.outages.flatMap((o) => (o.evidence ?? []).map((e) => ({ ...e, fault: o.host_fault })))} /> : <Text c="dimmed">{t("op.sla.no_outages")}</Text>}
      </Section>
      {!!s.excluded?.length && (
        <Section title={t("op.sla.excluded")}>
          <Evidences label={t("op.sla.excluded")} rows={s.excluded} />
        </Section>
      )}
    </Stack>
  );
}

function Confirm({ leaseId, evidence }: { leaseId: string; evidence: Evidence }) {
  const { t } = useTranslation();
  return (
    <FormButton
      size="xs"
      title={t("op.sla.confirm")}
      about={t("op.sla.confirm_about")}
      action={t("op.sla.confirm")}
      done={t("done")}
      keys={[["sla", leaseId]]}
      fields={[{ name: "note", label: t("op.sla.note"), kind: "long" }]}
      run={(v) => data(api.POST("/v1/operator/sla/confirmations", { body: { lease_id: leaseId, from: evidence.start, note: v.note || undefined } }))}
    />
  );
}

function Evidences({ label, rows }: { label: string; rows: (Evidence & { fault?: boolean })[] }) {
  const { t } = useTranslation();
  return (
    <Table.ScrollContainer minWidth={600} scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "region", "aria-label": label } }}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("op.sla.from")}</Table.Th>
            <Table.Th>{t("op.sla.until")}</Table.Th>
            <Table.Th>{t("op.sla.cause")}</Table.Th>
            <Table.Th>{t("op.sla.source")}</Table.Th>
            <Table.Th>{t("statement.reference")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((e) => (
            <Table.Tr key={`${e.start}/${e.source}/${e.reference}`}>
              <Table.Td>
                <Time at={e.start} />
              </Table.Td>
              <Table.Td>
                <Time at={e.end} />
              </Table.Td>
              <Table.Td>
                <Group gap={4}>
                  {t(`op.sla.cause.${e.cause}`, { defaultValue: e.cause })}
                  {e.fault && <Badge color="red" variant="light" tt="none">{t("op.sla.host_fault")}</Badge>}
                </Group>
              </Table.Td>
              <Table.Td>{t(`op.sla.source.${e.source}`, { defaultValue: e.source })}</Table.Td>
              <Table.Td>{e.reference}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
