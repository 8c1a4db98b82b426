import { Badge, Button, Group, Modal, Stack, Switch, Text, TextInput, Tooltip } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { useMay } from "../../../me";
import { confirm } from "../../../ui/confirm";
import { type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel, useErrorText } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { Simulated } from "../../../ui/simulated";
import { TextLink } from "../../../ui/TextLink";
import { PagedTable } from "../../../ui/PagedTable";
import { Advice } from "./Advice";
import { none } from "./search";

type Bid = Schema["Bid"];

const colors: Record<string, string> = { placed: "green", waiting: "blue", noticed: "orange", leaving: "orange", interrupted: "yellow", paused: "gray", cancelled: "gray", over: "gray", failed: "red" };
const open = (b: Bid) => !["cancelled", "over", "failed"].includes(b.state);

/** The account's bids, and what becomes of them. */
export function Bids() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const errorText = useErrorText();
  const may = useMay("lease:write");
  const [all, setAll] = useState(false);
  const [changing, setChanging] = useState<Bid>();
  const bids = usePages<Bid>(["bids", all], (cursor, signal) => data(api.GET("/v1/bids", { params: { query: { cursor, limit: 200, ...(!all && { open: true }) } }, signal })), { refetchInterval: 5_000 });
  const withdraw = useMutation({
    mutationFn: (id: string) => data(api.DELETE("/v1/bids/{bid_id}", { params: { path: { bid_id: id } } })),
    onError: (e) => {
      const { title, text } = errorText(e);
      notifications.show({ color: "red", title, message: text });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["bids"] }),
  });
  const columns: Columns<Bid> = [
    { id: "name", header: t("lease.name"), accessorFn: (b) => b.name, cell: ({ row: { original: b } }) => (b.lease_id ? <TextLink to="/leases/$leaseId" params={{ leaseId: b.lease_id }} size="sm" style={{ whiteSpace: "nowrap" }}>{b.name || b.id}</TextLink> : <Text size="sm">{b.name || b.id}</Text>) },
    {
      id: "state",
      header: t("lease.state"),
      accessorFn: (b) => b.state,
      cell: ({ row: { original: b } }) => (
        <Group gap={6} wrap="nowrap">
          <Badge color={colors[b.state]} variant="light" tt="none" style={{ flexShrink: 0 }}>
            {t(`bid.state.${b.state}`)}
          </Badge>
          {b.code && (
            <Tooltip label={b.message ?? b.code}>
              <Text size="sm" c="dimmed" style={{ whiteSpace: "nowrap" }}>
                {t(`bid.code.${b.code}`, { defaultValue: b.message ?? b.code })}
              </Text>
            </Tooltip>
          )}
        </Group>
      ),
    },
    {
      id: "gpu",
      header: t("market.gpu"),
      cell: ({ row: { original: b } }) => (
        <Group gap={6} wrap="nowrap">
          <span style={{ whiteSpace: "nowrap" }}>{`${b.gpus} × ${b.gpu_model}`}</span>
          <Simulated simulated={b.simulated} />
        </Group>
      ),
    },
    { id: "zone", header: t("market.zone"), cell: ({ row }) => row.original.zone },
    { id: "bid", header: t("bid.bid"), cell: ({ row: { original: b } }) => <Money amount={b.bid_per_gpu_hour} currency={b.currency} per="hour" /> },
    { id: "price", header: t("bid.pays"), cell: ({ row: { original: b } }) => (none(b.price_per_gpu_hour) ? "–" : <Money amount={b.price_per_gpu_hour} currency={b.currency} per="hour" />) },
    { id: "leaves", header: t("bid.leaves"), cell: ({ row }) => <Time at={row.original.leave_at} relative /> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: b } }) =>
        may && open(b) ? (
          <Group gap={4} wrap="nowrap">
            <Button size="compact-sm" variant="default" onClick={() => setChanging(b)}>
              {t("bid.change")}
            </Button>
            <Button
              size="compact-sm"
              variant="subtle"
              color="red"
              loading={withdraw.isPending && withdraw.variables === b.id}
              onClick={async () => {
                const name = b.name || b.id;
                if (await confirm({ title: t("bid.withdraw.title", { name }), text: t(b.lease_id ? "bid.withdraw.lease" : "bid.withdraw.text"), action: t("bid.withdraw"), danger: true, type: b.lease_id ? name : undefined })) withdraw.mutate(b.id);
              }}
            >
              {t("bid.withdraw")}
            </Button>
          </Group>
        ) : null,
    },
  ];
  return (
    <Stack>
      <Group justify="flex-end">
        <Switch label={t("bid.all")} checked={all} onChange={(e) => setAll(e.currentTarget.checked)} />
      </Group>
      <PagedTable list={bids} empty={<Empty title={t("bid.empty.title")} text={t("bid.empty.text")} />} label={t("spot.bids")} columns={columns} rowKey={(b) => b.id} />
      {changing && <Change bid={changing} close={() => setChanging(undefined)} />}
    </Stack>
  );
}

function Change({ bid, close }: { bid: Bid; close: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const decimal = /^\d{1,9}(\.\d{1,9})?$/;
  const [key] = useState(newKey);
  const trim = (s: string | undefined) => (s ?? "").replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  const form = useForm({ initialValues: { bid: trim(bid.bid_per_gpu_hour), max: none(bid.max_per_gpu_hour) ? "" : trim(bid.max_per_gpu_hour) }, validate: { bid: (v) => (decimal.test(v) ? null : t("bid.bad")), max: (v) => (v === "" || decimal.test(v) ? null : t("bid.bad")) } });
  const change = useMutation({
    mutationFn: (v: typeof form.values) => data(api.PATCH("/v1/bids/{bid_id}", { params: { path: { bid_id: bid.id }, header: once(key) }, body: { bid_per_gpu_hour: v.bid, ...(form.isDirty("max") && { max_per_gpu_hour: v.max || "0" }) } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["bids"] });
      close();
    },
  });
  return (
    <Modal opened onClose={close} title={t("bid.change.title", { name: bid.name || bid.id })} closeButtonProps={{ "aria-label": t("action.close") }}>
      <form onSubmit={form.onSubmit((v) => change.mutate(v))}>
        <Stack>
          <TextInput data-autofocus label={t("bid.amount", { currency: bid.currency })} description={t("bid.amount.help")} inputMode="decimal" {...form.getInputProps("bid")} />
          <TextInput label={t("bid.max")} description={t("bid.max.help")} inputMode="decimal" {...form.getInputProps("max")} />
          <Advice zone={bid.zone} model={bid.gpu_model} gpus={bid.gpus} use={(v) => form.setFieldValue("bid", v)} />
          {change.error && <ErrorPanel error={change.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t("action.cancel")}
            </Button>
            <Button type="submit" loading={change.isPending} disabled={!form.isDirty()}>
              {t("bid.change")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
