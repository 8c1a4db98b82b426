import { Alert, Anchor, Button, Group, PasswordInput, PinInput, Select, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconGift, IconMail } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, type Schema } from "../../api/client";
import { session, useToken } from "../../session";
import { ButtonLink } from "../../ui/ButtonLink";
import { ErrorPanel } from "../../ui/errors";
import { TextLink } from "../../ui/TextLink";
import { Frame } from "./entry/Frame";
import { useSignUpTerms } from "./entry/terms";
import { TrialTerms } from "./entry/TrialTerms";
import { Trial } from "./money/Trial";

type Terms = Schema["SignUpTerms"];

/** Where somebody makes an account: an address, the code that was sent there, and a trial. */
export function SignUp() {
  const { t } = useTranslation();
  const terms = useSignUpTerms();
  const token = useToken();
  const navigate = useNavigate();
  const [email, setEmail] = useState("");
  const [made, setMade] = useState(false);
  useEffect(() => {
    // Who is signed in has an account; who has just made one is shown the trial first.
    if (token && !made) void navigate({ to: "/market", replace: true });
  }, [token, made, navigate]);

  if (made && token) return <Ready terms={terms.data} />;
  if (terms.error) {
    return (
      <Frame title={t("signup.title")}>
        <ErrorPanel error={terms.error} retry={() => void terms.refetch()} />
      </Frame>
    );
  }
  if (!terms.data) {
    return (
      <Frame title={t("signup.title")}>
        <Skeleton h={240} role="status" aria-label={t("loading")} />
      </Frame>
    );
  }
  if (terms.data.mode === "closed") {
    return (
      <Frame title={t("signup.title")}>
        <Text>{t("signup.closed")}</Text>
        <ButtonLink to="/sign-in">{t("signup.to_sign_in")}</ButtonLink>
      </Frame>
    );
  }
  return (
    <Frame title={t("signup.title")}>
      {email ? (
        <Details
          terms={terms.data}
          email={email}
          back={() => setEmail("")}
          begun={(s) => {
            setMade(true);
            session.begin(s.token ?? "");
          }}
        />
      ) : (
        <Address terms={terms.data} sent={setEmail} />
      )}
      <Text size="sm" ta="center">
        {t("signup.existing")} <TextLink to="/sign-in" size="sm">{t("signin.submit")}</TextLink>
      </Text>
    </Frame>
  );
}

function Address({ terms, sent }: { terms: Terms; sent: (email: string) => void }) {
  const { t } = useTranslation();
  const form = useForm({ initialValues: { email: "" } });
  const ask = useMutation({
    mutationFn: (email: string) => api.POST("/v1/sign-up/code", { body: { email } }),
    onSuccess: (_, email) => sent(email),
    // A mail is on its way already: its code can be entered.
    onError: (e, email) => e instanceof ApiError && e.code === "code_sent" && sent(email),
  });
  return (
    <form onSubmit={form.onSubmit((v) => ask.mutate(v.email.trim()))}>
      <Stack>
        {terms.trial && (
          <Alert variant="light" color="green" icon={<IconGift />} title={t("signup.trial")}>
            <TrialTerms offer={terms.trial} />
          </Alert>
        )}
        {terms.mode === "invited" && <Text size="sm">{t("signup.invited")}</Text>}
        <TextInput label={t("signin.email")} description={t("signup.email.help")} type="email" autoComplete="email" required autoFocus {...form.getInputProps("email")} />
        {ask.error && <ErrorPanel error={ask.error} />}
        <Button type="submit" loading={ask.isPending}>
          {t("signup.send")}
        </Button>
      </Stack>
    </form>
  );
}

function Details({ terms, email, back, begun }: { terms: Terms; email: string; back: () => void; begun: (s: Schema["Session"]) => void }) {
  const { t } = useTranslation();
  const least = terms.password_min_characters;
  const form = useForm({
    initialValues: { code: "", password: "", name: "", currency: terms.currency },
    validate: {
      code: (v) => (/^\d{6}$/.test(v) ? null : t("signup.code.needed")),
      password: (v) => ([...v].length >= least ? null : t("signup.password.short", { count: least })),
    },
  });
  const make = useMutation({
    mutationFn: (v: typeof form.values) =>
      data(
        api.POST("/v1/sign-up", {
          body: { email, code: v.code, password: v.password, name: v.name.trim() || email, currency: v.currency as "USD" | "CNY", time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone },
        }),
      ),
    onSuccess: begun,
    onError: (e) => {
      if (!(e instanceof ApiError)) return;
      if (e.code === "code_wrong") form.setFieldValue("code", "");
      if (e.field === "body.password") form.setFieldError("password", e.message);
    },
  });
  const again = useMutation({ mutationFn: () => api.POST("/v1/sign-up/code", { body: { email } }) });
  return (
    <form onSubmit={form.onSubmit((v) => make.mutate(v))} noValidate>
      <Stack>
        <Alert variant="light" icon={<IconMail />} title={t("signup.sent.title")} style={{ overflowWrap: "anywhere" }}>
          {t("signup.sent", { email })}
        </Alert>
        {/* So that a password manager keeps the password with its address. */}
        <input type="email" name="email" autoComplete="username" value={email} readOnly hidden />
        <div>
          <Text size="sm" fw={500} id="code">
            {t("signup.code")}
          </Text>
          <PinInput length={6} type="number" oneTimeCode autoFocus gap={6} error={!!form.errors.code} aria-labelledby="code" getInputProps={(i) => ({ "aria-label": t("signin.digit", { n: i + 1 }) })} value={form.values.code} onChange={(v) => form.setFieldValue("code", v)} />
          {form.errors.code && (
            <Text size="xs" c="var(--mantine-color-error)" mt={4} role="alert">
              {form.errors.code}
            </Text>
          )}
        </div>
        <PasswordInput label={t("signin.password")} description={t("signup.password.help", { count: least })} autoComplete="new-password" withAsterisk visibilityToggleButtonProps={{ "aria-label": t("signin.show_password") }} {...form.getInputProps("password")} />
        <TextInput label={t("signup.name")} description={t("signup.name.help")} placeholder={email} autoComplete="organization" maxLength={100} {...form.getInputProps("name")} />
        {terms.currencies.length > 1 && (
          <Select label={t("signup.currency")} description={t(terms.trial && form.values.currency !== terms.trial.currency ? "signup.currency.no_trial" : "signup.currency.help")} allowDeselect={false} data={terms.currencies} {...form.getInputProps("currency")} />
        )}
        {make.error && !form.errors.password && <ErrorPanel error={make.error} />}
        {again.error && <ErrorPanel error={again.error} />}
        <Button type="submit" loading={make.isPending}>
          {t("signup.make")}
        </Button>
        <Group justify="space-between" gap="xs">
          <Anchor component="button" type="button" size="sm" onClick={back}>
            {t("signup.other_address")}
          </Anchor>
          <Anchor component="button" type="button" size="sm" onClick={() => again.mutate()} disabled={again.isPending}>
            {t(again.isSuccess ? "signup.sent_again" : "signup.again")}
          </Anchor>
        </Group>
      </Stack>
    </form>
  );
}

function Ready({ terms }: { terms?: Terms }) {
  const { t } = useTranslation();
  return (
    <Frame title={t("signup.ready")}>
      {terms?.trial ? <Trial plain /> : <Text>{t("signup.ready.pay")}</Text>}
      <ButtonLink to="/market" variant={terms?.trial ? "default" : "filled"}>
        {t("signup.to_market")}
      </ButtonLink>
      {!terms?.trial && (
        <ButtonLink to="/money" variant="default">
          {t("signup.to_money")}
        </ButtonLink>
      )}
    </Frame>
  );
}
