import { Badge, Button, Group, Paper, PasswordInput, PinInput, Skeleton, Stack, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data } from "../../../api/client";
import { useMe } from "../../../me";
import { Copy } from "../../../ui/Copy";
import { ErrorPanel } from "../../../ui/errors";
import { QR } from "./QR";

/** A second factor: codes of an authenticator app. */
export function SecondFactor() {
  const { t } = useTranslation();
  const me = useMe();
  const queries = useQueryClient();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const known = () => {
    setPassword("");
    setCode("");
    return queries.invalidateQueries({ queryKey: ["me"] });
  };
  const begin = useMutation({ mutationFn: () => data(api.POST("/v1/me/totp", { body: { password } })) });
  const confirm = useMutation({
    mutationFn: (totp: string) => api.POST("/v1/me/totp/confirm", { body: { totp } }),
    onSuccess: async () => {
      begin.reset();
      notifications.show({ message: t("totp.on") });
      await known();
    },
    onError: () => setCode(""),
  });
  const remove = useMutation({
    mutationFn: () => api.POST("/v1/me/totp/remove", { body: { password } }),
    onSuccess: async () => {
      notifications.show({ message: t("totp.off") });
      await known();
    },
  });
  if (!me) return <Skeleton h={160} maw={560} />;
  const on = me.user.totp;
  const error = begin.error ?? confirm.error ?? remove.error;
  return (
    <Paper withBorder p="md" maw={560} component="section">
      <Stack gap="sm">
        <Group gap="xs">
          <Title order={2} size="h4">
            {t("totp.title")}
          </Title>
          <Badge variant="light" color={on ? "green" : "gray"} tt="none">
            {t(on ? "totp.is_on" : "totp.is_off")}
          </Badge>
        </Group>
        <Text size="sm">{t("totp.text")}</Text>
        {begin.data ? (
          <Stack gap="sm" align="flex-start">
            <Text size="sm">{t("totp.scan")}</Text>
            <QR text={begin.data.url} label={t("totp.qr")} />
            <Copy text={begin.data.secret} />
            <Text size="sm" fw={500} id="totp-code">
              {t("totp.code")}
            </Text>
            <PinInput length={6} type="number" oneTimeCode autoFocus value={code} onChange={setCode} onComplete={(v) => confirm.mutate(v)} aria-labelledby="totp-code" getInputProps={(i) => ({ "aria-label": t("signin.digit", { n: i + 1 }) })} disabled={confirm.isPending} />
          </Stack>
        ) : (
          <form
            onSubmit={(e) => {
              e.preventDefault();
              if (on) remove.mutate();
              else begin.mutate();
            }}
          >
            <Group align="flex-end">
              <PasswordInput label={t("password.current")} autoComplete="current-password" required value={password} onChange={(e) => setPassword(e.currentTarget.value)} visibilityToggleButtonProps={{ "aria-label": t("signin.show_password") }} flex={1} miw={200} />
              <Button type="submit" variant={on ? "default" : "filled"} disabled={!password} loading={begin.isPending || remove.isPending}>
                {t(on ? "totp.turn_off" : "totp.turn_on")}
              </Button>
            </Group>
          </form>
        )}
        {error && <ErrorPanel error={error} />}
      </Stack>
    </Paper>
  );
}
