import { Alert, Badge, Button, Code, Group, Modal, Skeleton, Stack, Switch, Table, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { ButtonLink } from "../../ui/ButtonLink";
import { confirm } from "../../ui/confirm";
import { Copy } from "../../ui/Copy";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { PagedTable } from "../../ui/PagedTable";
import { WebhookForm } from "./settings/WebhookForm";

type Delivery = Schema["WebhookDelivery"];
const colors: Record<string, string> = { delivered: "green", pending: "blue", failed: "red" };

/** One webhook, and what became of each delivery. */
export function Webhook() {
  const { t } = useTranslation();
  const { webhookId } = useParams({ strict: false }) as { webhookId: string };
  const path = { webhook_id: webhookId };
  const queries = useQueryClient();
  const may = useMay("account:write");
  const [editing, setEditing] = useState(false);
  const [shown, setShown] = useState<string>();
  const webhook = useQuery({ queryKey: ["webhooks", webhookId], queryFn: ({ signal }) => data(api.GET("/v1/webhooks/{webhook_id}", { params: { path }, signal })) });
  const deliveries = usePages<Delivery>(["webhooks", webhookId, "deliveries"], (cursor, signal) => data(api.GET("/v1/webhooks/{webhook_id}/deliveries", { params: { path, query: { cursor, limit: 100 } }, signal })), { refetchInterval: 5_000 });
  const again = () => queries.invalidateQueries({ queryKey: ["webhooks"] });
  const enable = useMutation({ mutationFn: (enabled: boolean) => data(api.PATCH("/v1/webhooks/{webhook_id}", { params: { path }, body: { enabled } })), onSettled: again });
  const test = useMutation({ mutationFn: () => data(api.POST("/v1/webhooks/{webhook_id}/test", { params: { path } })), onSuccess: () => notifications.show({ message: t("webhook.tested") }), onSettled: again });
  const secret = useMutation({ mutationFn: (key: string) => data(api.POST("/v1/webhooks/{webhook_id}/secret", { params: { path, header: once(key) } })), onSettled: again });
  const redeliver = useMutation({ mutationFn: (id: string) => data(api.POST("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", { params: { path: { ...path, delivery_id: id } } })), onSettled: again });
  const w = webhook.data;
  const columns: Columns<Delivery> = [
    { id: "at", header: t("audit.at"), cell: ({ row }) => <Time at={row.original.first_at} /> },
    { id: "kind", header: t("news.what"), cell: ({ row }) => t(`news.${row.original.kind}`, { defaultValue: row.original.kind }) },
    { id: "state", header: t("lease.state"), cell: ({ row }) => <Badge color={colors[row.original.state]} variant="light" tt="none">{t(`delivery.${row.original.state}`)}</Badge> },
    { id: "attempts", header: t("delivery.attempts"), cell: ({ row }) => row.original.attempts },
    { id: "next", header: t("delivery.next"), cell: ({ row }) => <Time at={row.original.next_at} relative /> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: d } }) =>
        may ? (
          <Button size="compact-sm" variant="default" loading={redeliver.isPending && redeliver.variables === d.id} onClick={() => redeliver.mutate(d.id)}>
            {t("delivery.again")}
          </Button>
        ) : null,
    },
  ];
  const error = enable.error ?? test.error ?? secret.error ?? redeliver.error;
  return (
    <Page
      title={t("webhook.title")}
      about={w?.url}
      actions={
        <>
          <ButtonLink to="/account/webhooks" variant="default">
            {t("nav.webhooks")}
          </ButtonLink>
          {may && w && (
            <>
              <Button variant="default" onClick={() => setEditing(true)}>
                {t("bid.change")}
              </Button>
              <Button variant="default" loading={test.isPending} onClick={() => test.mutate()}>
                {t("webhook.test")}
              </Button>
              <Button
                variant="default"
                loading={secret.isPending}
                onClick={async () => {
                  const key = newKey();
                  if (await confirm({ title: t("webhook.secret"), text: t("webhook.secret.text"), action: t("webhook.secret") })) secret.mutate(key);
                }}
              >
                {t("webhook.secret")}
              </Button>
            </>
          )}
        </>
      }
    >
      {error && <ErrorPanel error={error} />}
      {secret.data && (
        <Alert variant="light" title={t("webhook.secret_once")}>
          <Copy text={secret.data.secret} />
        </Alert>
      )}
      {webhook.error ? (
        <ErrorPanel error={webhook.error} retry={() => void webhook.refetch()} />
      ) : !w ? (
        <Skeleton h={80} role="status" aria-label={t("loading")} />
      ) : (
        <Group>
          <Switch label={t("webhook.enabled")} checked={w.enabled} disabled={!may || enable.isPending} onChange={(e) => enable.mutate(e.currentTarget.checked)} />
          {w.disabled_why && <Text size="sm">{t(`webhook.why.${w.disabled_why}`)}</Text>}
          {w.failing_since && (
            <Text size="sm">
              {t("webhook.failing")} <Time at={w.failing_since} relative />
            </Text>
          )}
        </Group>
      )}
      <PagedTable list={deliveries} empty={<Empty title={t("delivery.empty.title")} text={t("delivery.empty.text")} />} label={t("delivery.title")} columns={columns} rowKey={(d) => d.id} onOpen={(d) => setShown(d.id)} />
      {editing && w && <WebhookForm webhook={w} close={() => setEditing(false)} />}
      <Modal opened={!!shown} onClose={() => setShown(undefined)} title={t("delivery.log")} size="lg" closeButtonProps={{ "aria-label": t("action.close") }}>
        {shown && <Log webhookId={webhookId} deliveryId={shown} />}
      </Modal>
    </Page>
  );
}

function Log({ webhookId, deliveryId }: { webhookId: string; deliveryId: string }) {
  const { t } = useTranslation();
  const delivery = useQuery({ queryKey: ["webhooks", webhookId, "delivery", deliveryId], queryFn: ({ signal }) => data(api.GET("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}", { params: { path: { webhook_id: webhookId, delivery_id: deliveryId } }, signal })) });
  if (delivery.error) return <ErrorPanel error={delivery.error} />;
  if (!delivery.data) return <Skeleton h={120} role="status" aria-label={t("loading")} />;
  return (
    <Stack>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("audit.at")}</Table.Th>
            <Table.Th>{t("delivery.answer")}</Table.Th>
            <Table.Th>{t("delivery.took")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {(delivery.data.log ?? []).map((a) => (
            <Table.Tr key={a.number}>
              <Table.Td>
                <Time at={a.at} />
              </Table.Td>
              <Table.Td>
                {a.status ?? t(`delivery.error.${a.error}`, { defaultValue: a.error ?? "–" })}
                {a.excerpt && (
                  <Code block mah={120}>
                    {a.excerpt}
                  </Code>
                )}
              </Table.Td>
              <Table.Td className="figure">{`${a.latency_ms} ms`}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Stack>
  );
}
