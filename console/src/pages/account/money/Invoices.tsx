import { Alert, Badge, Button, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, download, type Schema } from "../../../api/client";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel, useErrorText } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { Simulated } from "../../../ui/simulated";

type Invoice = Schema["Invoice"];

const colors: Record<string, string> = { open: "blue", due: "orange", overdue: "red", paid: "green", credited: "gray", uncollectible: "gray" };

/** Downloads a document, and says so if it cannot be had. */
export function useDownload() {
  const errorText = useErrorText();
  const [pending, setPending] = useState("");
  const get = async (path: string, name: string) => {
    setPending(path);
    try {
      await download(path, name);
    } catch (e) {
      const { title, text } = errorText(e);
      notifications.show({ color: "red", title, message: text });
    } finally {
      setPending("");
    }
  };
  return { get, pending };
}

/** The account's invoices, what is owed of them, and the documents. */
export function Invoices() {
  const { t } = useTranslation();
  const documents = useDownload();
  const invoices = usePages<Invoice>(["invoices"], (cursor, signal) => data(api.GET("/v1/invoices", { params: { query: { cursor, limit: 100 } }, signal })));
  const dues = useQuery({ queryKey: ["dues"], queryFn: ({ signal }) => data(api.GET("/v1/dues", { signal })) }).data?.items ?? [];
  const due = new Map(dues.map((d) => [d.invoice_id, d]));
  const overdue = dues.find((d) => d.state === "overdue" && d.stops_at);
  const columns: Columns<Invoice> = [
    { id: "number", header: t("invoice.number"), cell: ({ row: { original: i } }) => <Group gap={6} wrap="nowrap">{i.number}<Simulated simulated={i.simulated} /></Group> },
    { id: "from", header: t("cost.from"), cell: ({ row }) => <Time at={row.original.start} /> },
    { id: "to", header: t("cost.to"), cell: ({ row }) => <Time at={row.original.end} /> },
    { id: "total", header: t("invoice.total"), cell: ({ row: { original: i } }) => <Money amount={i.total} currency={i.currency} /> },
    {
      id: "state",
      header: t("lease.state"),
      cell: ({ row: { original: i } }) => {
        const d = due.get(i.id);
        return d ? (
          <Badge color={colors[d.state]} variant="light" tt="none">
            {t(`due.${d.state}`)}
          </Badge>
        ) : (
          "–"
        );
      },
    },
    { id: "owed", header: t("invoice.owed"), cell: ({ row: { original: i } }) => (due.has(i.id) ? <Money amount={due.get(i.id)!.owed} currency={i.currency} /> : "–") },
    { id: "due", header: t("invoice.due"), cell: ({ row: { original: i } }) => <Time at={due.get(i.id)?.due_at ?? i.due_at} /> },
    {
      id: "documents",
      header: t("invoice.documents"),
      cell: ({ row: { original: i } }) => (
        <Group gap={4} wrap="nowrap">
          {(["pdf", "csv"] as const).map((kind) => {
            const path = `/v1/invoices/${encodeURIComponent(i.id)}/${kind}`;
            return (
              <Button key={kind} size="compact-sm" variant="default" loading={documents.pending === path} onClick={() => void documents.get(path, `${i.number}.${kind}`)} aria-label={`${kind.toUpperCase()} ${i.number}`}>
                {kind.toUpperCase()}
              </Button>
            );
          })}
        </Group>
      ),
    },
  ];
  if (invoices.error) return <ErrorPanel error={invoices.error} retry={invoices.retry} />;
  if (!invoices.first && invoices.rows.length === 0) return <Empty title={t("invoice.empty.title")} text={t("invoice.empty.text")} />;
  return (
    <>
      {overdue && (
        <Alert color="red" title={t("invoice.overdue")} mb="md">
          {t("invoice.overdue.text", { number: overdue.number })} <Time at={overdue.stops_at} />
        </Alert>
      )}
      <DataTable label={t("money.tab.invoices")} rows={invoices.rows} columns={columns} rowKey={(i) => i.id} more={invoices.more} loading={invoices.first || invoices.loading} />
    </>
  );
}
