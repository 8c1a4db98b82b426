import { Alert, Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { Copy } from "../../ui/Copy";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { FormButton } from "../../ui/FormDialog";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";

type Gateway = Schema["Gateway"];

/** Gateways on machines of their own, by which renters reach instances. */
export function Gateways() {
  const { t } = useTranslation();
  const [token, setToken] = useState<Schema["JoinToken"]>();
  const list = useQuery({ queryKey: ["operator", "gateways"], queryFn: ({ signal }) => data(api.GET("/v1/operator/gateways", { signal })), refetchInterval: 10_000 });
  const remove = useAct((id: string) => api.DELETE("/v1/operator/gateways/{gateway_id}", { params: { path: { gateway_id: id } } }), { keys: [["operator", "gateways"]], done: t("done") });
  const ask = async (g: Gateway) => {
    if (await confirm({ title: t("op.gateway.remove.title", { name: g.name }), text: t("op.gateway.remove.text"), action: t("op.gateway.remove"), danger: true, type: g.name })) remove.mutate(g.id);
  };
  const rows = list.data?.items ?? [];
  const columns: Columns<Gateway> = [
    { id: "name", accessorFn: (g) => g.name, header: t("host.name"), cell: ({ row }) => row.original.name },
    { id: "id", header: t("op.gateway.id"), cell: ({ row }) => <Copy text={row.original.id} /> },
    { id: "build", accessorFn: (g) => g.build, header: t("op.gateway.build"), cell: ({ row }) => row.original.build },
    { id: "created", accessorFn: (g) => g.created_at, header: t("op.gateway.joined"), cell: ({ row }) => <Time at={row.original.created_at} /> },
    {
      id: "actions",
      header: t("column.actions"),
      cell: ({ row }) => (
        <Button size="xs" color="red" variant="light" loading={remove.isPending && remove.variables === row.original.id} onClick={() => void ask(row.original)}>
          {t("op.gateway.remove")}
        </Button>
      ),
    },
  ];
  return (
    <Page
      title={t("nav.op.gateways")}
      about={t("op.gateway.about")}
      actions={
        <FormButton
          title={t("op.gateway.token")}
          about={t("op.gateway.token_about")}
          action={t("op.gateway.token")}
          variant="filled"
          after={setToken}
          fields={[{ name: "name", label: t("host.name"), help: t("host.join.name") }]}
          run={(v) => data(api.POST("/v1/operator/gateway-tokens", { body: { name: v.name.trim() || undefined, expires_in_seconds: 3600 } }))}
        />
      }
    >
      {token && (
        <Alert variant="light" title={t("op.gateway.token_is")} withCloseButton closeButtonLabel={t("action.close")} onClose={() => setToken(undefined)}>
          <Copy text={token.token} />
          {t("host.join.once")} <Time at={token.expires_at} relative />
        </Alert>
      )}
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : !list.isPending && rows.length === 0 ? (
        <Empty title={t("op.gateway.empty.title")} text={t("op.gateway.empty.text")} />
      ) : (
        <DataTable label={t("nav.op.gateways")} rows={rows} columns={columns} rowKey={(g) => g.id} loading={list.isPending} />
      )}
    </Page>
  );
}
