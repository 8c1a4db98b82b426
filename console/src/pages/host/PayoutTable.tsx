import { Badge } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../api/client";
import { Copy } from "../../ui/Copy";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Money, Time } from "../../ui/format";

export type Payout = Schema["Payout"];

const colours: Record<Payout["state"], string> = { requested: "blue", approved: "cyan", paid: "green", failed: "red", declined: "gray", returned: "orange" };

/** Payouts in a table; an operator's also says to whom, and what can be done. */
export function PayoutTable({ rows, more, loading, owners, actions }: { rows: Payout[]; more?: () => void; loading?: boolean; owners?: boolean; actions?: (p: Payout) => ReactNode }) {
  const { t } = useTranslation();
  const columns: Columns<Payout> = [
    { id: "state", accessorFn: (p) => p.state, header: t("payout.state"), cell: ({ row: { original: p } }) => <Badge color={colours[p.state]} variant="light" tt="none">{t(`payout.state.${p.state}`)}</Badge> },
    { id: "amount", accessorFn: (p) => Number(p.amount), header: t("payout.amount"), cell: ({ row: { original: p } }) => <Money amount={p.amount} currency={p.currency} /> },
    ...(owners ? ([{ id: "account", accessorFn: (p: Payout) => p.account_id, header: t("payout.account"), cell: ({ row }: { row: { original: Payout } }) => <Copy text={row.original.account_id} /> }] as Columns<Payout>) : []),
    { id: "batch", accessorFn: (p) => p.batch, header: t("payout.batch"), cell: ({ row }) => row.original.batch },
    { id: "created", accessorFn: (p) => p.created_at, header: t("payout.created"), cell: ({ row }) => <Time at={row.original.created_at} /> },
    { id: "changed", accessorFn: (p) => p.changed_at, header: t("payout.changed"), cell: ({ row }) => <Time at={row.original.changed_at} relative /> },
    { id: "reference", header: t("payout.reference"), cell: ({ row: { original: p } }) => p.reference || p.reason || "–" },
    ...(actions ? ([{ id: "actions", header: t("column.actions"), cell: ({ row }: { row: { original: Payout } }) => actions(row.original) }] as Columns<Payout>) : []),
  ];
  return <DataTable label={t("payout.list")} rows={rows} columns={columns} rowKey={(p) => p.id} more={more} loading={loading} height={owners ? undefined : 400} />;
}
