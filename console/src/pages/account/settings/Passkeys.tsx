import { Alert, Badge, Button, Group, Paper, PasswordInput, Skeleton, Stack, Text, TextInput, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, type Schema } from "../../../api/client";
import { useMe } from "../../../me";
import { useAct } from "../../../ui/act";
import { confirm } from "../../../ui/confirm";
import { ErrorPanel } from "../../../ui/errors";
import { FormButton } from "../../../ui/FormDialog";
import { Time } from "../../../ui/format";
import { addPasskey, passkeysThere, turnedAway } from "../entry/passkey";

/** Keys of this or another device by which one signs in, as well as by the password or instead of it. */
export function Passkeys() {
  const { t } = useTranslation();
  const me = useMe();
  const queries = useQueryClient();
  const list = useQuery({ queryKey: ["passkeys"], queryFn: ({ signal }) => data(api.GET("/v1/me/passkeys", { signal })) });
  const [password, setPassword] = useState("");
  const [name, setName] = useState("");
  const add = useMutation({
    mutationFn: () => addPasskey(password, name.trim() || t("passkey.name.auto")),
    onSuccess: () => {
      setPassword("");
      setName("");
      notifications.show({ message: t("passkey.added") });
      void queries.invalidateQueries({ queryKey: ["passkeys"] });
    },
  });
  if (!me) return <Skeleton h={160} maw={560} />;
  const only = me.user.passkey_only;
  const keys = list.data?.items ?? [];
  // A page at an address of numbers has none: browsers bind them to names.
  const elsewhere = /^[\d.]+$|^\[/.test(location.hostname);
  return (
    <Paper withBorder p="md" maw={560} component="section">
      <Stack gap="sm">
        <Group gap="xs">
          <Title order={2} size="h4">
            {t("passkey.title")}
          </Title>
          {only && (
            <Badge variant="light" color="green" tt="none">
              {t("passkey.only.on")}
            </Badge>
          )}
        </Group>
        <Text size="sm">{t("passkey.text")}</Text>
        {list.error && <ErrorPanel error={list.error} retry={() => void list.refetch()} />}
        {list.isPending && <Skeleton h={44} role="status" aria-label={t("loading")} />}
        {list.data && keys.length === 0 && <Text c="dimmed">{t("passkey.none")}</Text>}
        {keys.map((k) => (
          <Key key={k.id} passkey={k} />
        ))}
        {elsewhere ? (
          <Alert variant="light">{t("passkey.elsewhere")}</Alert>
        ) : !passkeysThere() ? (
          <Alert variant="light">{t("passkey.not_here")}</Alert>
        ) : (
          <form
            onSubmit={(e) => {
              e.preventDefault();
              add.mutate();
            }}
          >
            <Stack gap="sm">
              <Group align="flex-end">
                <TextInput label={t("passkey.name")} placeholder={t("passkey.name.auto")} maxLength={100} autoComplete="off" value={name} onChange={(e) => setName(e.currentTarget.value)} flex={1} miw={160} />
                <PasswordInput label={t("password.current")} autoComplete="current-password" required value={password} onChange={(e) => setPassword(e.currentTarget.value)} visibilityToggleButtonProps={{ "aria-label": t("signin.show_password") }} flex={1} miw={160} />
                <Button type="submit" disabled={!password} loading={add.isPending}>
                  {t("passkey.add")}
                </Button>
              </Group>
              {add.error && (turnedAway(add.error) ? <Text size="sm">{t("passkey.turned_away")}</Text> : <ErrorPanel error={add.error} />)}
            </Stack>
          </form>
        )}
        {(keys.length > 0 || only) && (
          <Group>
            <FormButton
              size="xs"
              title={t(only ? "passkey.only.turn_off" : "passkey.only.turn_on")}
              about={t(only ? "passkey.only.turn_off.text" : "passkey.only.turn_on.text")}
              action={t(only ? "passkey.only.turn_off" : "passkey.only.turn_on")}
              fields={[{ name: "password", label: t("password.current"), kind: "password", required: true }]}
              keys={[["me"]]}
              done={t("done")}
              run={(v) => api.POST("/v1/me/passkey-only", { body: { password: v.password, passkey_only: !only } })}
            />
          </Group>
        )}
      </Stack>
    </Paper>
  );
}

function Key({ passkey: k }: { passkey: Schema["Passkey"] }) {
  const { t } = useTranslation();
  const remove = useAct((id: string) => api.DELETE("/v1/me/passkeys/{passkey_id}", { params: { path: { passkey_id: id } } }), { keys: [["passkeys"]], quiet: true });
  return (
    <div>
      <Group justify="space-between" wrap="nowrap">
        <div>
          <Group gap="xs">
            <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
              {k.name}
            </Text>
            {k.synced && (
              <Badge variant="light" color="gray" tt="none" size="sm">
                {t("passkey.synced")}
              </Badge>
            )}
          </Group>
          <Text size="xs" c="dimmed">
            {t("passkey.since")} <Time at={k.created_at} /> · {k.last_used_at ? <>{t("passkey.used")} <Time at={k.last_used_at} relative /></> : t("passkey.unused")}
          </Text>
        </div>
        <Button
          size="compact-sm"
          variant="subtle"
          color="red"
          loading={remove.isPending}
          aria-label={t("passkey.remove.title", { name: k.name })}
          onClick={async () => (await confirm({ title: t("passkey.remove.title", { name: k.name }), text: t("passkey.remove.text"), action: t("keys.remove"), danger: true })) && remove.mutate(k.id)}
        >
          {t("keys.remove")}
        </Button>
      </Group>
      {remove.error instanceof ApiError && <ErrorPanel error={remove.error} />}
    </div>
  );
}
