import { Badge, Button, Group, List, Modal, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { Copy } from "../../../ui/Copy";
import { type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { Simulated } from "../../../ui/simulated";
import { TextLink } from "../../../ui/TextLink";
import { PagedTable } from "../../../ui/PagedTable";
import type { MoneySearch } from "./search";

type Charge = Schema["Charge"];

/** What was charged, and how each sum came about. */
export function Charges() {
  const { t } = useTranslation();
  const search = useSearch({ strict: false }) as MoneySearch;
  const navigate = useNavigate();
  const open = (charge: string | undefined) => void navigate({ to: "/money", search: { ...search, charge } });
  const charges = usePages<Charge>(["charges", search.lease ?? ""], (cursor, signal) => data(api.GET("/v1/charges", { params: { query: { cursor, limit: 200, lease_id: search.lease } }, signal })), { refetchInterval: 60_000 });
  const columns: Columns<Charge> = [
    { id: "at", header: t("charge.posted"), accessorFn: (c) => c.posted_at, cell: ({ row }) => <Time at={row.original.posted_at} /> },
    {
      id: "what",
      header: t("cost.what"),
      cell: ({ row: { original: c } }) => (
        <Group gap={6} wrap="nowrap">
          {t(`meter.${c.meter}`)}
          <Simulated simulated={c.simulated} />
          {c.amount.startsWith("-") && (
            <Badge size="sm" variant="light" tt="none">
              {t("charge.correction")}
            </Badge>
          )}
        </Group>
      ),
    },
    { id: "lease", header: t("lease.title"), cell: ({ row }) => <TextLink to="/leases/$leaseId" params={{ leaseId: row.original.lease_id }} search={{ tab: "cost" }} size="sm">{row.original.lease_id}</TextLink> },
    { id: "from", header: t("cost.from"), cell: ({ row }) => <Time at={row.original.from} /> },
    { id: "to", header: t("cost.to"), cell: ({ row }) => <Time at={row.original.to} /> },
    { id: "amount", header: t("cost.amount"), accessorFn: (c) => Number(c.amount), cell: ({ row: { original: c } }) => <Money amount={c.amount} currency={c.currency} /> },
    {
      id: "why",
      header: t("market.actions"),
      cell: ({ row }) => (
        <Button size="compact-sm" variant="default" onClick={() => open(row.original.id)}>
          {t("charge.why")}
        </Button>
      ),
    },
  ];
  return (
    <>
      <PagedTable list={charges} empty={<Empty title={t("charge.empty.title")} text={t("charge.empty.text")} />} label={t("money.tab.charges")} columns={columns} rowKey={(c) => c.id} onOpen={(c) => open(c.id)} />
      <Modal opened={!!search.charge} onClose={() => open(undefined)} title={t("charge.why.title")} size="lg" closeButtonProps={{ "aria-label": t("action.close") }}>
        {search.charge && <Explanation id={search.charge} />}
      </Modal>
    </>
  );
}

function Explanation({ id }: { id: string }) {
  const { t, i18n } = useTranslation();
  const explanation = useQuery({ queryKey: ["explanation", id], queryFn: ({ signal }) => data(api.GET("/v1/charges/{charge_id}/explanation", { params: { path: { charge_id: id } }, signal })), retry: false });
  const e = explanation.data;
  if (explanation.error) return <ErrorPanel error={explanation.error} retry={() => void explanation.refetch()} />;
  if (!e) return <Skeleton h={200} role="status" aria-label={t("loading")} />;
  return (
    <Stack>
      <Group gap="xs">
        <Text fw={600} fz="lg">
          <Money amount={e.amount} currency={e.currency} />
        </Text>
        <Badge color={e.ok ? "green" : "red"} variant="light" tt="none">
          {t(e.ok ? "charge.proved" : "charge.differs")}
        </Badge>
        <Simulated simulated={e.simulated} />
      </Group>
      <List type="ordered" spacing="xs">
        {(e.steps ?? []).map((s, i) => (
          <List.Item key={i}>{i18n.language === "zh-CN" ? s.words_zh : s.words}</List.Item>
        ))}
      </List>
      <Text size="xs" c="dimmed">
        {t("charge.posted")} <Time at={e.posted_at} />
      </Text>
      <Copy text={id} />
    </Stack>
  );
}
