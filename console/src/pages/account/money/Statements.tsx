import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";

type Statement = Schema["Statement"];

/** The closed months: what they began with, what came and went, and what was left. */
export function Statements() {
  const { t } = useTranslation();
  const statements = usePages<Statement>(["statements"], (cursor, signal) => data(api.GET("/v1/statements", { params: { query: { cursor, limit: 100 } }, signal })));
  const sum = (key: "opening" | "paid" | "credited" | "invoiced" | "refunded" | "closing"): Columns<Statement>[number] => ({ id: key, header: t(`statement.${key}`), cell: ({ row: { original: s } }) => <Money amount={s[key]} currency={s.currency} /> });
  const columns: Columns<Statement> = [
    { id: "from", header: t("cost.from"), cell: ({ row }) => <Time at={row.original.start} /> },
    { id: "to", header: t("cost.to"), cell: ({ row }) => <Time at={row.original.end} /> },
    sum("opening"),
    sum("paid"),
    sum("credited"),
    sum("invoiced"),
    sum("refunded"),
    sum("closing"),
  ];
  if (statements.error) return <ErrorPanel error={statements.error} retry={statements.retry} />;
  if (!statements.first && statements.rows.length === 0) return <Empty title={t("statement.empty.title")} text={t("statement.empty.text")} />;
  return <DataTable label={t("money.tab.statements")} rows={statements.rows} columns={columns} rowKey={(s) => s.start} more={statements.more} loading={statements.first || statements.loading} />;
}
