import { Button, Divider, PasswordInput, PinInput, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconFingerprint } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data } from "../../api/client";
import { session, useToken } from "../../session";
import { ErrorPanel } from "../../ui/errors";
import { TextLink } from "../../ui/TextLink";
import { Frame } from "./entry/Frame";
import { passkeysThere, signInByPasskey, turnedAway } from "./entry/passkey";
import { useSignUpTerms } from "./entry/terms";

/** Where somebody says who they are: by password, and a second factor if they have one. */
export function SignIn() {
  const { t } = useTranslation();
  const { next } = useSearch({ from: "/sign-in" });
  const navigate = useNavigate();
  const token = useToken();
  const [second, setSecond] = useState(false);
  const terms = useSignUpTerms().data;
  const form = useForm({ initialValues: { email: "", password: "", totp: "" } });

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
  const byPasskey = useMutation({ mutationFn: signInByPasskey, onSuccess: (s) => session.begin(s.token ?? "") });
  const asked = signIn.error instanceof ApiError && signIn.error.code === "totp_required";

  return (
    <Frame title={t("signin.title")}>
      <form onSubmit={form.onSubmit((v) => signIn.mutate(v))}>
        <Stack>
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
        </Stack>
      </form>
      {passkeysThere() && (
        <>
          <Divider label={t("signin.or")} />
          <Button variant="default" leftSection={<IconFingerprint size={18} />} loading={byPasskey.isPending} onClick={() => byPasskey.mutate()}>
            {t("signin.passkey")}
          </Button>
          {byPasskey.error && (turnedAway(byPasskey.error) ? <Text size="sm" role="status">{t("passkey.turned_away")}</Text> : <ErrorPanel error={byPasskey.error} />)}
        </>
      )}
      {terms && terms.mode !== "closed" && (
        <Text size="sm" ta="center">
          {t("signin.new_here")} <TextLink to="/sign-up" size="sm">{t("signup.make")}</TextLink>
        </Text>
      )}
    </Frame>
  );
}
