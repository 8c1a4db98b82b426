import { Badge, Button, Group, Modal, PasswordInput, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../api/client";
import { useMay, useMe } from "../../me";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { useRemoval } from "./settings/useRemoval";

type User = Schema["User"];
const roles = ["owner", "admin", "member", "billing", "viewer"] as const;

/** Who uses the account, and what each may do. */
export function Team() {
  const { t } = useTranslation();
  const may = useMay("account:write");
  const me = useMe();
  const [open, setOpen] = useState<User | "new">();
  const users = usePages<User>(["users"], (cursor, signal) => data(api.GET("/v1/users", { params: { query: { cursor, limit: 100 } }, signal })));
  const removal = useRemoval("users", (id) => api.DELETE("/v1/users/{user_id}", { params: { path: { user_id: id } } }));
  const columns: Columns<User> = [
    { id: "name", header: t("profile.name"), accessorFn: (u) => u.name, cell: ({ row }) => <Text size="sm" fw={600} maw={220} truncate>{row.original.name}</Text> },
    { id: "email", header: t("signin.email"), accessorFn: (u) => u.email, cell: ({ row }) => row.original.email },
    { id: "role", header: t("team.role"), accessorFn: (u) => u.role, cell: ({ row }) => t(`role.${row.original.role}`) },
    {
      id: "state",
      header: t("lease.state"),
      cell: ({ row: { original: u } }) => (
        <Group gap={4} wrap="nowrap">
          {u.disabled && <Badge color="red" variant="light" tt="none">{t("team.disabled")}</Badge>}
          {u.operator && <Badge variant="light" tt="none">{t("team.operator")}</Badge>}
          <Badge color={u.totp ? "green" : "gray"} variant="light" tt="none">{t(u.totp ? "team.totp" : "team.no_totp")}</Badge>
        </Group>
      ),
    },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: u } }) =>
        may ? (
          <Group gap={4} wrap="nowrap">
            <Button size="compact-sm" variant="default" onClick={() => setOpen(u)}>
              {t("bid.change")}
            </Button>
            {u.id !== me?.user.id && (
              <Button size="compact-sm" variant="subtle" color="red" loading={removal.pending === u.id} onClick={() => void removal.ask(u.id, { title: t("team.remove.title", { name: u.name }), text: t("team.remove.text"), action: t("keys.remove"), type: u.email })}>
                {t("keys.remove")}
              </Button>
            )}
          </Group>
        ) : null,
    },
  ];
  return (
    <Page title={t("team.title")} about={t("team.about")} actions={may && <Button onClick={() => setOpen("new")}>{t("team.add")}</Button>}>
      {users.error ? <ErrorPanel error={users.error} retry={users.retry} /> : <DataTable label={t("team.title")} rows={users.rows} columns={columns} rowKey={(u) => u.id} more={users.more} loading={users.first || users.loading} />}
      {open && <Edit user={open === "new" ? undefined : open} close={() => setOpen(undefined)} />}
    </Page>
  );
}

function Edit({ user, close }: { user: User | undefined; close: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [key] = useState(newKey);
  const form = useForm({
    initialValues: { name: user?.name ?? "", email: user?.email ?? "", password: "", role: (user?.role ?? "member") as User["role"], disabled: user?.disabled ?? false, resetTotp: false },
    validate: { password: (v) => ((user && v === "") || v.length >= 10 ? null : t("password.short")) },
  });
  const save = useMutation({
    mutationFn: (v: typeof form.values): Promise<User> =>
      user
        ? data(
            api.PATCH("/v1/users/{user_id}", {
              params: { path: { user_id: user.id } },
              body: {
                ...(form.isDirty("name") && { name: v.name.trim() }),
                ...(form.isDirty("role") && { role: v.role }),
                ...(form.isDirty("disabled") && { disabled: v.disabled }),
                ...(v.password && { password: v.password }),
                ...(v.resetTotp && { reset_totp: true }),
              },
            }),
          )
        : data(api.POST("/v1/users", { params: { header: once(key) }, body: { email: v.email.trim(), role: v.role, password: v.password, ...(v.name.trim() && { name: v.name.trim() }) } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["users"] });
      close();
    },
  });
  return (
    <Modal opened onClose={close} title={user ? t("team.change", { name: user.name }) : t("team.add")} closeButtonProps={{ "aria-label": t("action.close") }}>
      <form onSubmit={form.onSubmit((v) => save.mutate(v))}>
        <Stack>
          {!user && <TextInput data-autofocus type="email" label={t("signin.email")} required autoComplete="off" {...form.getInputProps("email")} />}
          <TextInput label={t("profile.name")} {...form.getInputProps("name")} />
          <Select label={t("team.role")} description={t(`role.${form.values.role}.means`)} allowDeselect={false} data={roles.map((r) => ({ value: r, label: t(`role.${r}`) }))} {...form.getInputProps("role")} />
          <PasswordInput label={t(user ? "team.password" : "signin.password")} description={t(user ? "team.password.help" : "password.help")} autoComplete="new-password" required={!user} visibilityToggleButtonProps={{ "aria-label": t("signin.show_password") }} {...form.getInputProps("password")} />
          {user && <Switch label={t("team.disable")} {...form.getInputProps("disabled", { type: "checkbox" })} />}
          {user?.totp && <Switch label={t("team.reset_totp")} {...form.getInputProps("resetTotp", { type: "checkbox" })} />}
          {save.error && <ErrorPanel error={save.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t("action.cancel")}
            </Button>
            <Button type="submit" loading={save.isPending}>
              {t(user ? "save" : "team.add")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
