import { Badge, Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { useRemoval } from "./settings/useRemoval";
import { WebhookForm } from "./settings/WebhookForm";

type Webhook = Schema["Webhook"];

/** The addresses that are called with the account's news. */
export function Webhooks() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const may = useMay("account:write");
  const [adding, setAdding] = useState(false);
  const webhooks = useQuery({ queryKey: ["webhooks"], queryFn: ({ signal }) => data(api.GET("/v1/webhooks", { signal })) });
  const removal = useRemoval("webhooks", (id) => api.DELETE("/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));
  const rows = webhooks.data?.items ?? [];
  const columns: Columns<Webhook> = [
    { id: "url", header: "URL", cell: ({ row }) => <Text size="sm" maw={420} truncate>{row.original.url}</Text> },
    { id: "description", header: t("webhook.description"), cell: ({ row }) => row.original.description || "–" },
    { id: "kinds", header: t("webhook.kinds"), cell: ({ row }) => (row.original.kinds?.length ? t("webhook.n_kinds", { count: row.original.kinds.length }) : t("webhook.all_kinds")) },
    {
      id: "state",
      header: t("lease.state"),
      cell: ({ row: { original: w } }) => (
        <Badge color={w.enabled ? (w.failing_since ? "orange" : "green") : "gray"} variant="light" tt="none">
          {t(w.enabled ? (w.failing_since ? "webhook.failing" : "webhook.on") : "webhook.off")}
        </Badge>
      ),
    },
    { id: "at", header: t("keys.made"), cell: ({ row }) => <Time at={row.original.created_at} /> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: w } }) =>
        may ? (
          <Button size="compact-sm" variant="subtle" color="red" loading={removal.pending === w.id} onClick={() => void removal.ask(w.id, { title: t("webhook.remove.title"), text: t("webhook.remove.text"), action: t("keys.remove") })}>
            {t("keys.remove")}
          </Button>
        ) : null,
    },
  ];
  return (
    <Page title={t("nav.webhooks")} about={t("webhook.about")} actions={may && <Group><Button onClick={() => setAdding(true)}>{t("webhook.add")}</Button></Group>}>
      {webhooks.error ? (
        <ErrorPanel error={webhooks.error} retry={() => void webhooks.refetch()} />
      ) : webhooks.data && rows.length === 0 ? (
        <Empty title={t("webhook.empty.title")} text={t("webhook.empty.text")} />
      ) : (
        <DataTable label={t("nav.webhooks")} rows={rows} columns={columns} rowKey={(w) => w.id} onOpen={(w) => void navigate({ to: "/account/webhooks/$webhookId", params: { webhookId: w.id } })} loading={webhooks.isPending} />
      )}
      {adding && <WebhookForm close={() => setAdding(false)} />}
    </Page>
  );
}
