import { Badge, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { Copy } from "../../ui/Copy";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { FormButton } from "../../ui/FormDialog";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { useUrlText } from "../../ui/urlstate";

type Account = Schema["Account"];

/** All accounts of the cloud. */
export function Accounts() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [words, setWords] = useUrlText("q");
  const list = usePages<Account>(["operator", "accounts"], (cursor, signal) => data(api.GET("/v1/operator/accounts", { params: { query: { cursor, limit: 200 } }, signal })), { refetchInterval: 30_000 });
  const open = (id: string) => void navigate({ to: "/operate/accounts/$accountId", params: { accountId: id } });
  const found = list.rows.filter((a) => `${a.name} ${a.id}`.toLowerCase().includes(words.toLowerCase()));
  const columns: Columns<Account> = [
    { id: "name", accessorFn: (a) => a.name, header: t("op.account.name"), cell: ({ row }) => <Text fw={600} size="sm" truncate w="max-content" maw={260} title={row.original.name}>{row.original.name}</Text> },
    { id: "id", header: t("op.account.id"), cell: ({ row }) => <Copy text={row.original.id} /> },
    { id: "state", accessorFn: (a) => String(a.suspended), header: t("host.state"), cell: ({ row }) => <Suspended account={row.original} /> },
    { id: "currency", accessorFn: (a) => a.currency, header: t("op.account.currency"), cell: ({ row }) => row.original.currency },
    { id: "leases", accessorFn: (a) => a.max_leases, header: t("op.account.max_leases"), cell: ({ row }) => <span className="figure">{row.original.max_leases}</span> },
    { id: "gpus", accessorFn: (a) => a.max_gpus, header: t("op.account.max_gpus"), cell: ({ row }) => <span className="figure">{row.original.max_gpus}</span> },
    { id: "created", accessorFn: (a) => a.created_at, header: t("op.created"), cell: ({ row }) => <Time at={row.original.created_at} /> },
  ];
  return (
    <Page
      title={t("nav.op.accounts")}
      about={t("op.account.about")}
      actions={
        <FormButton
          title={t("op.account.create")}
          action={t("op.account.create")}
          variant="filled"
          done={t("done")}
          keys={[["operator", "accounts"]]}
          after={(made: Schema["CreatedAccount"]) => open(made.account.id)}
          fields={[
            { name: "name", label: t("op.account.name"), required: true },
            { name: "email", label: t("op.account.email"), required: true },
            { name: "password", label: t("op.account.password"), help: t("op.account.password_about"), kind: "password", required: true },
            { name: "currency", label: t("op.account.currency"), help: t("op.account.currency_about"), kind: "choice", choices: ["USD", "CNY"].map((value) => ({ value, label: value })) },
            { name: "time_zone", label: t("op.account.zone"), help: t("op.account.zone_about"), kind: "choice", choices: zones() },
          ]}
          run={(v, key) =>
            data(
              api.POST("/v1/operator/accounts", {
                params: { header: once(key) },
                body: { name: v.name.trim(), email: v.email.trim(), password: v.password, currency: v.currency ?? undefined, time_zone: v.time_zone ?? undefined } as Schema["CreateAccount"],
              }),
            )
          }
        />
      }
    >
      {list.error ? (
        <ErrorPanel error={list.error} retry={list.retry} />
      ) : (
        <>
          <TextInput maw={320} leftSection={<IconSearch size={16} />} placeholder={t("op.account.search")} aria-label={t("op.account.search")} value={words} onChange={(e) => setWords(e.currentTarget.value)} />
          <DataTable label={t("nav.op.accounts")} rows={found} columns={columns} rowKey={(a) => a.id} more={list.more} loading={list.first || list.loading} onOpen={(a) => open(a.id)} />
        </>
      )}
    </Page>
  );
}

export function Suspended({ account }: { account: Account }) {
  const { t } = useTranslation();
  return (
    <Badge color={account.suspended ? "red" : "green"} variant="light" tt="none">
      {t(account.suspended ? "op.account.suspended" : "op.account.active")}
    </Badge>
  );
}

export const zones = () => ["UTC", ...Intl.supportedValuesOf("timeZone").filter((z) => z !== "UTC")].map((value) => ({ value, label: value }));
