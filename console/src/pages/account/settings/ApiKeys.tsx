import { Alert, Badge, Button, Group, Modal, MultiSelect, Select, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { useMay, useMe } from "../../../me";
import { Copy } from "../../../ui/Copy";
import { type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel } from "../../../ui/errors";
import { Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { PagedTable } from "../../../ui/PagedTable";
import { useRemoval } from "./useRemoval";

type Key = Schema["APIKey"];

/** The keys with which programs use the API. */
export function ApiKeys() {
  const { t } = useTranslation();
  const may = useMay("self:write");
  const [making, setMaking] = useState(false);
  const keys = usePages<Key>(["api-keys"], (cursor, signal) => data(api.GET("/v1/api-keys", { params: { query: { cursor, limit: 100 } }, signal })));
  const removal = useRemoval("api-keys", (id) => api.DELETE("/v1/api-keys/{key_id}", { params: { path: { key_id: id } } }));
  const columns: Columns<Key> = [
    { id: "name", header: t("profile.name"), accessorFn: (k) => k.name, cell: ({ row }) => <Text size="sm" fw={600}>{row.original.name}</Text> },
    { id: "hint", header: t("apikey.hint"), cell: ({ row }) => <Text size="xs" ff="monospace">{`…${row.original.hint}`}</Text> },
    {
      id: "scopes",
      header: t("apikey.scopes"),
      cell: ({ row: { original: k } }) => (
        <Group gap={4} wrap="nowrap">
          {(k.scopes ?? []).map((s) => (
            <Badge key={s} variant="light" color="gray" tt="none" size="sm" style={{ flexShrink: 0 }}>
              {t(`action.${s}`, { defaultValue: s })}
            </Badge>
          ))}
        </Group>
      ),
    },
    { id: "used", header: t("apikey.used"), cell: ({ row }) => <Time at={row.original.last_used_at} relative /> },
    { id: "until", header: t("apikey.until"), cell: ({ row }) => (row.original.expires_at ? <Time at={row.original.expires_at} relative /> : t("order.never")) },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: k } }) =>
        may ? (
          <Button size="compact-sm" variant="default" loading={removal.pending === k.id} onClick={() => void removal.ask(k.id, { title: t("apikey.revoke.title", { name: k.name }), text: t("apikey.revoke.text"), action: t("apikey.revoke") })}>
            {t("apikey.revoke")}
          </Button>
        ) : null,
    },
  ];
  return (
    <section>
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h4">
          {t("apikey.title")}
        </Title>
        {may && <Button onClick={() => setMaking(true)}>{t("apikey.make")}</Button>}
      </Group>
      <PagedTable list={keys} empty={<Empty title={t("apikey.empty.title")} text={t("apikey.empty.text")} />} label={t("apikey.title")} columns={columns} rowKey={(k) => k.id} height={360} />
      {making && <Make close={() => setMaking(false)} />}
    </section>
  );
}

function Make({ close }: { close: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const queries = useQueryClient();
  const [key, setKey] = useState(newKey);
  const form = useForm({ initialValues: { name: "", all: false, scopes: ["market:read", "lease:read"] as string[], days: "90" }, validate: { scopes: (v, all) => (!all.all && v.length === 0 ? t("apikey.need_scope") : null) } });
  const make = useMutation({
    mutationFn: (v: typeof form.values) =>
      data(api.POST("/v1/api-keys", { params: { header: once(key) }, body: { name: v.name.trim(), scopes: v.all ? ["*"] : v.scopes, ...(v.days !== "0" && { expires_at: new Date(Date.now() + Number(v.days) * 86_400_000).toISOString() }) } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["api-keys"] }),
    onError: () => setKey(newKey()),
  });
  return (
    <Modal opened onClose={close} title={t("apikey.make")} closeOnClickOutside={!make.data} closeButtonProps={{ "aria-label": t("action.close") }}>
      {make.data ? (
        <Stack>
          <Alert variant="light" title={t("apikey.once")}>
            <Copy text={make.data.secret ?? ""} />
          </Alert>
          <Group justify="flex-end">
            <Button onClick={close}>{t("apikey.kept")}</Button>
          </Group>
        </Stack>
      ) : (
        <form onSubmit={form.onSubmit((v) => make.mutate(v))}>
          <Stack>
            <TextInput data-autofocus label={t("profile.name")} required maxLength={100} {...form.getInputProps("name")} />
            <Switch label={t("apikey.all")} {...form.getInputProps("all", { type: "checkbox" })} />
            {!form.values.all && <MultiSelect label={t("apikey.scopes")} data={(me?.actions ?? []).map((a) => ({ value: a, label: t(`action.${a}`, { defaultValue: a }) }))} {...form.getInputProps("scopes")} />}
            <Select label={t("apikey.until")} allowDeselect={false} data={["30", "90", "365", "0"].map((d) => ({ value: d, label: d === "0" ? t("order.never") : t("apikey.days", { count: Number(d) }) }))} {...form.getInputProps("days")} />
            {make.error && <ErrorPanel error={make.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                {t("action.cancel")}
              </Button>
              <Button type="submit" loading={make.isPending}>
                {t("apikey.make")}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
