import { Badge, Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { FormButton } from "../../ui/FormDialog";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";

type Invitation = Schema["Invitation"];

const keys = [["operator", "invitations"]];
const standing = (i: Invitation) => (i.used_at ? "used" : Date.parse(i.expires_at) < Date.now() ? "expired" : "open");
const colours = { used: "green", expired: "gray", open: "blue" };

/** Addresses that may sign up. */
export function Invitations() {
  const { t } = useTranslation();
  const list = useQuery({ queryKey: ["operator", "invitations"], queryFn: ({ signal }) => data(api.GET("/v1/operator/invitations", { signal })), refetchInterval: 30_000 });
  const back = useAct((id: string) => api.DELETE("/v1/operator/invitations/{invitation_id}", { params: { path: { invitation_id: id } } }), { keys, done: t("done") });
  const ask = async (i: Invitation) => {
    if (await confirm({ title: t("op.invite.back.title", { email: i.email }), text: t("op.invite.back.text"), action: t("op.invite.back"), danger: true })) back.mutate(i.id);
  };
  const rows = [...(list.data?.items ?? [])].reverse();
  const columns: Columns<Invitation> = [
    { id: "email", header: t("op.invite.email"), accessorFn: (i) => i.email, cell: ({ row }) => row.original.email },
    { id: "state", header: t("host.state"), accessorFn: standing, cell: ({ row: { original: i } }) => <Badge variant="light" tt="none" color={colours[standing(i)]}>{t(`op.invite.state.${standing(i)}`)}</Badge> },
    { id: "created", header: t("op.created"), accessorFn: (i) => i.created_at, cell: ({ row }) => <Time at={row.original.created_at} /> },
    { id: "expires", header: t("op.invite.expires"), accessorFn: (i) => i.expires_at, cell: ({ row }) => <Time at={row.original.expires_at} /> },
    { id: "used", header: t("op.invite.used"), accessorFn: (i) => i.used_at ?? "", cell: ({ row }) => <Time at={row.original.used_at} /> },
    {
      id: "actions",
      header: t("column.actions"),
      cell: ({ row: { original: i } }) =>
        standing(i) === "open" && (
          <Button size="compact-sm" variant="light" color="red" loading={back.isPending && back.variables === i.id} onClick={() => void ask(i)}>
            {t("op.invite.back")}
          </Button>
        ),
    },
  ];
  return (
    <Page
      title={t("nav.op.invite")}
      about={t("op.invite.about")}
      actions={
        <FormButton
          title={t("op.invite.new")}
          about={t("op.invite.new_about")}
          action={t("op.invite.new")}
          variant="filled"
          done={t("done")}
          keys={keys}
          fields={[{ name: "email", label: t("op.invite.email"), required: true }]}
          run={(v, key) => data(api.POST("/v1/operator/invitations", { params: { header: once(key) }, body: { email: v.email.trim() } }))}
        />
      }
    >
      {list.error ? (
        <ErrorPanel error={list.error} retry={() => void list.refetch()} />
      ) : !list.isPending && rows.length === 0 ? (
        <Empty title={t("op.invite.empty.title")} text={t("op.invite.empty.text")} />
      ) : (
        <DataTable label={t("nav.op.invite")} rows={rows} columns={columns} rowKey={(i) => i.id} loading={list.isPending} />
      )}
    </Page>
  );
}
