import { Button, Group, Modal, Stack, Text, TextInput, Textarea, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { useMay } from "../../../me";
import { type Columns } from "../../../ui/DataTable";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel } from "../../../ui/errors";
import { Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { PagedTable } from "../../../ui/PagedTable";
import { useRemoval } from "./useRemoval";

type Key = Schema["SSHKey"];

/** The SSH keys that open the account's leases. */
export function SshKeys() {
  const { t } = useTranslation();
  const may = useMay("self:write");
  const [adding, setAdding] = useState(false);
  const keys = usePages<Key>(["ssh-keys", "pages"], (cursor, signal) => data(api.GET("/v1/ssh-keys", { params: { query: { cursor, limit: 100 } }, signal })));
  const removal = useRemoval("ssh-keys", (id) => api.DELETE("/v1/ssh-keys/{ssh_key_id}", { params: { path: { ssh_key_id: id } } }));
  const columns: Columns<Key> = [
    { id: "name", header: t("profile.name"), accessorFn: (k) => k.name, cell: ({ row }) => <Text size="sm" fw={600}>{row.original.name}</Text> },
    { id: "print", header: t("ssh.fingerprint"), cell: ({ row }) => <Text size="xs" ff="monospace">{row.original.fingerprint}</Text> },
    { id: "at", header: t("keys.made"), cell: ({ row }) => <Time at={row.original.created_at} /> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: k } }) =>
        may ? (
          <Button size="compact-sm" variant="default" loading={removal.pending === k.id} onClick={() => void removal.ask(k.id, { title: t("ssh.remove.title", { name: k.name }), text: t("ssh.remove.text"), action: t("keys.remove") })}>
            {t("keys.remove")}
          </Button>
        ) : null,
    },
  ];
  return (
    <section>
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h4">
          {t("ssh.title")}
        </Title>
        {may && <Button onClick={() => setAdding(true)}>{t("ssh.add")}</Button>}
      </Group>
      <PagedTable list={keys} empty={<Empty title={t("ssh.empty.title")} text={t("ssh.empty.text")} />} label={t("ssh.title")} columns={columns} rowKey={(k) => k.id} height={360} />
      {adding && <Add close={() => setAdding(false)} />}
    </section>
  );
}

function Add({ close }: { close: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [key] = useState(newKey);
  const form = useForm({ initialValues: { name: "", line: "" } });
  const add = useMutation({
    mutationFn: (v: typeof form.values) => data(api.POST("/v1/ssh-keys", { params: { header: once(key) }, body: { public_key: v.line.trim(), ...(v.name.trim() && { name: v.name.trim() }) } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["ssh-keys"] });
      close();
    },
  });
  return (
    <Modal opened onClose={close} title={t("ssh.add")} closeButtonProps={{ "aria-label": t("action.close") }}>
      <form onSubmit={form.onSubmit((v) => add.mutate(v))}>
        <Stack>
          <Textarea data-autofocus label={t("order.public_key")} description={t("order.public_key.help")} placeholder="ssh-ed25519 AAAA…" autosize minRows={3} required {...form.getInputProps("line")} />
          <TextInput label={t("profile.name")} placeholder={t("ssh.comment")} {...form.getInputProps("name")} />
          {add.error && <ErrorPanel error={add.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t("action.cancel")}
            </Button>
            <Button type="submit" loading={add.isPending}>
              {t("ssh.add")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
