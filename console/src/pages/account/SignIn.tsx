import { Button, Center, Paper, PasswordInput, PinInput, SegmentedControl, Stack, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data } from "../../api/client";
import { languages, setLanguage, type Language } from "../../i18n";
import { session, useToken } from "../../session";
import { ErrorPanel } from "../../ui/errors";

/** Where somebody says who they are: by password, and a second factor if they have one. */
export function SignIn() {
  const { t, i18n } = useTranslation();
  const { next } = useSearch({ from: "/sign-in" });
  const navigate = useNavigate();
  const token = useToken();
  const [second, setSecond] = useState(false);
  const form = useForm({ initialValues: { email: "", password: "", totp: "" } });

  useEffect(() => {
    document.title = `${t("signin.title")} · suanli`;
  }, [t]);
  useEffect(() => {
    // Only to a place of this console: an address from outside is not followed.
    if (token) void navigate({ to: next && /^\/(?!\/)/.test(next) ? next : "/market", replace: true });
  }, [token, navigate, next]);

  const signIn = useMutation({
    mutationFn: (v: typeof form.values) => data(api.POST("/v1/sessions", { body: { email: v.email.trim(), password: v.password, ...(second && { totp: v.totp }) } })),
    onSuccess: (s) => session.begin(s.token ?? ""),
    onError: (e) => {
      if (e instanceof ApiError && e.code === "totp_required") setSecond(true);
      form.setFieldValue("totp", "");
    },
  });
  const asked = signIn.error instanceof ApiError && signIn.error.code === "totp_required";

  return (
    <Center mih="100dvh" p="md" component="main">
      <Paper withBorder p="xl" w="100%" maw={400}>
        <form onSubmit={form.onSubmit((v) => signIn.mutate(v))}>
          <Stack>
            <Center>
              <img src="/console/icon.svg" width={48} height={48} alt="" />
            </Center>
            <Title order={1} size="h3" ta="center">
              {t("signin.title")}
            </Title>
            <TextInput label={t("signin.email")} type="email" autoComplete="username" required {...form.getInputProps("email")} />
            <PasswordInput label={t("signin.password")} autoComplete="current-password" required visibilityToggleButtonProps={{ "aria-label": t("signin.show_password") }} {...form.getInputProps("password")} />
            {second && (
              <div>
                <Text size="sm" fw={500} id="totp">
                  {t("signin.totp")}
                </Text>
                <PinInput length={6} type="number" oneTimeCode autoFocus aria-labelledby="totp" getInputProps={(i) => ({ "aria-label": t("signin.digit", { n: i + 1 }) })} {...form.getInputProps("totp")} />
              </div>
            )}
            {signIn.error && !asked && <ErrorPanel error={signIn.error} />}
            <Button type="submit" loading={signIn.isPending}>
              {t("signin.submit")}
            </Button>
            <SegmentedControl size="xs" aria-label={t("nav.language")} value={i18n.language} onChange={(v) => void setLanguage(v as Language)} data={Object.entries(languages).map(([value, label]) => ({ value, label }))} />
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
