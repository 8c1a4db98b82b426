import { Alert, Badge, Button, Group, Progress, SegmentedControl, Skeleton, Stack, Switch, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { useAct } from "../../ui/act";
import { ButtonLink } from "../../ui/ButtonLink";
import { confirm } from "../../ui/confirm";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel, useErrorText } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { duration, money, Money, Time } from "../../ui/format";
import { FormButton } from "../../ui/FormDialog";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { TextLink } from "../../ui/TextLink";
import { colors, over } from "./reserve/search";

type Details = Schema["ReservationDetails"];
type Hour = Schema["ReservationHour"];
type Payment = Schema["Prepayment"];

/** One reservation: what it costs, what its hours were used for, and how it ends or goes on. */
export function Reservation() {
  const { t } = useTranslation();
  const { reservationId: id } = useParams({ strict: false }) as { reservationId: string };
  const may = useMay("lease:write");
  const found = useQuery({ queryKey: ["reservation", id], queryFn: ({ signal }) => data(api.GET("/v1/reservations/{reservation_id}", { params: { path: { reservation_id: id } }, signal })), refetchInterval: 10_000, retry: false });
  const r = found.data;
  if (found.error && !r) {
    return (
      <Page title={t("reserve.one")}>
        <ErrorPanel error={found.error} retry={() => void found.refetch()} />
        <Group>
          <ButtonLink to="/reservations" variant="default">
            {t("reserve.title")}
          </ButtonLink>
        </Group>
      </Page>
    );
  }
  if (!r) {
    return (
      <Page title={t("reserve.one")}>
        <Skeleton h={320} role="status" aria-label={t("loading")} />
      </Page>
    );
  }
  return (
    <Page
      title={r.name || r.id}
      about={`${r.gpus} × ${r.gpu_model} · ${r.region} / ${r.zone}`}
      actions={
        <>
          <Simulated simulated={r.simulated} />
          <Badge color={colors[r.state]} variant="light" tt="none">
            {t(`reserve.state.${r.state}`)}
          </Badge>
          {may && !over(r.state) && <Rename reservation={r} />}
          {may && !over(r.state) && r.state !== "ending" && <End reservation={r} />}
        </>
      }
    >
      {(r.state === "undelivered" || r.state === "suspended") && (
        <Alert color="orange" title={t(`reserve.state.${r.state}`)}>
          {t(`reserve.${r.state}`)}
        </Alert>
      )}
      <Facts
        facts={[
          { long: true, name: t("reserve.per_gpu_hour"), value: <Money amount={r.per_gpu_hour} currency={r.currency} per="hour" /> },
          { long: true, name: t("reserve.due"), value: <Money amount={r.due} currency={r.currency} /> },
          { long: true, name: t("reserve.posted"), value: <Money amount={r.posted} currency={r.currency} /> },
          { long: true, name: t("reserve.total"), value: <Money amount={r.total} currency={r.currency} /> },
          { long: true, name: t("cost.from"), value: <Time at={r.from} /> },
          { long: true, name: t("cost.to"), value: <Time at={r.until} /> },
        ]}
      />
      {may && !over(r.state) && <Renews reservation={r} />}
      <Hours reservation={r} />
      <Paid reservation={r} />
      {r.lost.length > 0 && (
        <Section title={t("reserve.lost")} about={t("reserve.lost.about")}>
          <Stack gap={4}>
            {r.lost.map((x) => (
              <Text size="sm" key={x.from}>
                <Time at={x.from} /> – <Time at={x.until} />
              </Text>
            ))}
          </Stack>
        </Section>
      )}
    </Page>
  );
}

const patch = (id: string, key: string, body: Schema["ReservationUpdate"]) => data(api.PATCH("/v1/reservations/{reservation_id}", { params: { path: { reservation_id: id }, header: once(key) }, body }));

function Rename({ reservation: r }: { reservation: Details }) {
  const { t } = useTranslation();
  return <FormButton size="xs" title={t("reserve.rename")} action={t("action.save")} keys={[["reservation"], ["reservations"]]} done={t("done")} fields={[{ name: "name", label: t("lease.name"), required: true, initial: r.name }]} run={(v, key) => patch(r.id, key, { name: v.name.trim() })} />;
}

function Renews({ reservation: r }: { reservation: Details }) {
  const { t } = useTranslation();
  const set = useAct((renews: boolean, key) => patch(r.id, key, { renews }), { keys: [["reservation"], ["reservations"]] });
  return <Switch label={t("reserve.renew")} description={t("reserve.renew.help")} checked={set.isPending ? set.variables : r.renews} disabled={set.isPending} onChange={(e) => set.mutate(e.currentTarget.checked)} />;
}

/** Ends it early, for what the person has been told that it comes to. */
function End({ reservation: r }: { reservation: Details }) {
  const { t, i18n } = useTranslation();
  const end = useAct((agreed: string, key) => data(api.POST("/v1/reservations/{reservation_id}/cancel", { params: { path: { reservation_id: r.id }, header: once(key) }, body: { agreed_net: agreed } })), { keys: [["reservation"], ["reservations"], ["balance"]], done: t("reserve.ended") });
  const words = useErrorText();
  const ask = async () => {
    // What it comes to grows by the hour: what is agreed to is what it is now.
    let e: Details["if_ended_now"];
    try {
      e = (await data(api.GET("/v1/reservations/{reservation_id}", { params: { path: { reservation_id: r.id } } }))).if_ended_now;
    } catch (error) {
      const { title, text } = words(error);
      notifications.show({ color: "red", title, message: text, autoClose: 15_000 });
      return;
    }
    const back = e?.net.startsWith("-");
    const text = !e || /^-?0*(\.0*)?$/.test(e.net) ? t("reserve.end.nothing") : t(back ? "reserve.end.back" : "reserve.end.pay", { amount: money(e.net.replace(/^-/, ""), r.currency, i18n.language), owed: money(e.owed, r.currency, i18n.language) });
    if (await confirm({ title: t("reserve.end.title", { name: r.name || r.id }), text: `${text} ${t("reserve.end.text")}`, action: t("reserve.end"), danger: true, type: r.name || undefined })) end.mutate(!e || back ? "0" : e.net);
  };
  return (
    <Button size="xs" variant="light" color="red" loading={end.isPending} onClick={() => void ask()}>
      {t("reserve.end")}
    </Button>
  );
}

const spans = { day: 1, week: 7, month: 31 } as const;

function Hours({ reservation: r }: { reservation: Details }) {
  const { t, i18n } = useTranslation();
  const [span, setSpan] = useState<keyof typeof spans>("day");
  const hours = useQuery({
    queryKey: ["reservation-hours", r.id, span],
    queryFn: ({ signal }) => data(api.GET("/v1/reservations/{reservation_id}/hours", { params: { path: { reservation_id: r.id }, query: { from: new Date(Date.now() - spans[span] * 86_400_000 + 60_000).toISOString() } }, signal })),
    refetchInterval: 60_000,
  });
  const rows = [...(hours.data?.items ?? [])].reverse();
  const held = rows.reduce((sum, h) => sum + h.capacity_gpu_seconds, 0);
  const used = rows.reduce((sum, h) => sum + h.used_gpu_seconds, 0);
  const percent = new Intl.NumberFormat(i18n.language, { style: "percent", maximumFractionDigits: 0 });
  const columns: Columns<Hour> = [
    { id: "hour", header: t("reserve.hour"), accessorFn: (h) => h.hour, cell: ({ row }) => <Time at={row.original.hour} /> },
    { id: "used", header: t("reserve.used"), accessorFn: (h) => h.used_gpu_seconds, cell: ({ row }) => duration(row.original.used_gpu_seconds, i18n.language) },
    { id: "unused", header: t("reserve.unused"), accessorFn: (h) => h.unused_gpu_seconds, cell: ({ row }) => duration(row.original.unused_gpu_seconds, i18n.language) },
    { id: "cost", header: t("reserve.cost"), cell: ({ row }) => <Money amount={row.original.cost} currency={r.currency} /> },
    { id: "wasted", header: t("reserve.unused_cost"), cell: ({ row }) => <Money amount={row.original.unused_cost} currency={r.currency} /> },
    {
      id: "leases",
      header: t("reserve.leases"),
      cell: ({ row }) => (
        <Group gap={6} wrap="nowrap">
          {row.original.leases.map((l) => (
            <TextLink key={l.lease_id} to="/leases/$leaseId" params={{ leaseId: l.lease_id }} size="sm">
              {l.lease_id}
            </TextLink>
          ))}
        </Group>
      ),
    },
  ];
  return (
    <Section title={t("reserve.hours")} about={t("reserve.hours.about")} actions={<SegmentedControl size="xs" aria-label={t("reserve.span")} value={span} onChange={(v) => setSpan(v as keyof typeof spans)} data={(["day", "week", "month"] as const).map((x) => ({ value: x, label: t(`reserve.span.${x}`) }))} />}>
      {hours.error ? (
        <ErrorPanel error={hours.error} retry={() => void hours.refetch()} />
      ) : hours.data && rows.length === 0 ? (
        <Text c="dimmed">{t("reserve.hours.none")}</Text>
      ) : (
        <>
          {held > 0 && (
            <div>
              <Text size="sm" mb={4}>
                {t("reserve.share_used", { share: percent.format(used / held) })}
              </Text>
              <Progress value={(100 * used) / held} size="lg" aria-label={t("reserve.used")} />
            </div>
          )}
          <DataTable label={t("reserve.hours")} rows={rows} columns={columns} rowKey={(h) => h.hour} loading={hours.isPending} height={360} />
        </>
      )}
    </Section>
  );
}

function Paid({ reservation: r }: { reservation: Details }) {
  const { t } = useTranslation();
  if (r.payments.length === 0) return null;
  const columns: Columns<Payment> = [
    { id: "kind", header: t("cost.what"), cell: ({ row }) => t(`reserve.paid.${row.original.kind}`, { defaultValue: row.original.kind }) },
    { id: "from", header: t("cost.from"), cell: ({ row }) => <Time at={row.original.from} /> },
    { id: "until", header: t("cost.to"), cell: ({ row }) => <Time at={row.original.until} /> },
    { id: "amount", header: t("cost.amount"), cell: ({ row }) => <Money amount={row.original.amount} currency={r.currency} /> },
  ];
  return (
    <Section title={t("reserve.paid")} about={t("reserve.paid.about")}>
      <DataTable label={t("reserve.paid")} rows={r.payments} columns={columns} rowKey={(x) => `${x.kind}${x.from}${x.amount}`} height={240} />
    </Section>
  );
}
