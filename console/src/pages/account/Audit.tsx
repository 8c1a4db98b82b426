import { Code, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { PagedTable } from "../../ui/PagedTable";

type Entry = Schema["AuditEntry"];

/** Who did what with the account, and from where. */
export function Audit() {
  const { t } = useTranslation();
  const entries = usePages<Entry>(["audit"], (cursor, signal) => data(api.GET("/v1/audit", { params: { query: { cursor, limit: 200 } }, signal })));
  const users = usePages<Schema["User"]>(["users"], (cursor, signal) => data(api.GET("/v1/users", { params: { query: { cursor, limit: 100 } }, signal })));
  const name = (id: string | undefined) => (id ? (users.rows.find((u) => u.id === id)?.email ?? id) : t("audit.cloud"));
  const columns: Columns<Entry> = [
    { id: "at", header: t("audit.at"), accessorFn: (e) => e.at, cell: ({ row }) => <Time at={row.original.at} /> },
    { id: "who", header: t("audit.who"), cell: ({ row }) => <span style={{ whiteSpace: "nowrap" }}>{name(row.original.user_id)}</span> },
    { id: "action", header: t("audit.action"), accessorFn: (e) => e.action, cell: ({ row }) => <Code>{row.original.action}</Code> },
    { id: "subject", header: t("audit.subject"), cell: ({ row }) => <Text size="xs" ff="monospace">{row.original.subject}</Text> },
    { id: "ip", header: t("session.from"), cell: ({ row }) => row.original.ip ?? "–" },
    { id: "detail", header: t("audit.detail"), cell: ({ row }) => (row.original.detail ? <Text size="xs" ff="monospace" maw={420} truncate title={JSON.stringify(row.original.detail)}>{JSON.stringify(row.original.detail)}</Text> : "–") },
  ];
  return (
    <Page title={t("audit.title")} about={t("audit.about")}>
      <PagedTable list={entries} empty={<Empty title={t("audit.empty.title")} text={t("audit.empty.text")} />} label={t("audit.title")} columns={columns} rowKey={(e) => e.id} />
    </Page>
  );
}
