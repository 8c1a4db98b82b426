import { Alert, Button, Group, Paper, PinInput, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once } from "../../../api/client";
import { useMay, useMe } from "../../../me";
import { ErrorPanel } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { TrialTerms } from "../entry/TrialTerms";

const kept = "suanli.device";

/** The identifier that this browser starts trials with, got when it is first needed. */
async function device(): Promise<string> {
  const known = localStorage.getItem(kept);
  if (known) return known;
  const got = await data(api.POST("/v1/trial/device"));
  localStorage.setItem(kept, got.device);
  return got.device;
}

/** The account's trial: what it is, how it is started, and what is left of it. */
export function Trial({ plain }: { plain?: boolean }) {
  const { t } = useTranslation();
  const me = useMe();
  const may = useMay("billing:write");
  const queries = useQueryClient();
  const [key] = useState(newKey);
  const [code, setCode] = useState("");
  const trial = useQuery({ queryKey: ["trial"], queryFn: ({ signal }) => data(api.GET("/v1/trial", { signal })), refetchInterval: (q) => (q.state.data?.grant ? 15_000 : false) });
  const known = () => {
    for (const k of ["trial", "balance", "grants"]) void queries.invalidateQueries({ queryKey: [k] });
  };
  const send = useMutation({ mutationFn: () => api.POST("/v1/trial/code") });
  const verify = useMutation({ mutationFn: (code: string) => data(api.POST("/v1/trial/verify", { body: { code } })), onSuccess: known, onError: () => setCode("") });
  const start = useMutation({ mutationFn: async () => data(api.POST("/v1/trial", { params: { header: once(key) }, body: { device: await device() } })), onSuccess: known });
  const s = trial.data;
  if (trial.error && plain) return <ErrorPanel error={trial.error} retry={() => void trial.refetch()} />;
  if (!s || !me) return plain ? <Skeleton h={200} role="status" aria-label={t("loading")} /> : null;
  if (!s.offered && !s.grant) return null;
  if (!s.grant && (!may || s.currency !== me.account.currency)) return null;
  const error = send.error ?? verify.error ?? start.error;
  const content = (
    <Stack gap="sm">
      {s.grant ? (
        <>
          <Text fw={600} fz="lg">
            {t("trial.left")} <Money amount={s.grant.left} currency={s.grant.currency} />
          </Text>
          <Text size="sm">
            {s.grant.expires_at ? (
              <>
                {t("trial.until")} <Time at={s.grant.expires_at} /> (<Time at={s.grant.expires_at} relative />)
              </>
            ) : (
              t("trial.waits")
            )}
          </Text>
          <Text size="sm" c="dimmed">
            {t("trial.ends")}
          </Text>
        </>
      ) : (
        <>
          <TrialTerms offer={s} />
          {s.contact_verified ? (
            <Button onClick={() => start.mutate()} loading={start.isPending}>
              {t("trial.start")}
            </Button>
          ) : !s.mail_sent ? (
            <Alert variant="light">{t("trial.by_operator")}</Alert>
          ) : send.isSuccess ? (
            <div>
              <Text size="sm" fw={500} id="trial-code">
                {t("trial.code", { email: me.user.email })}
              </Text>
              <PinInput length={6} type="number" oneTimeCode autoFocus gap={6} value={code} onChange={setCode} onComplete={(v) => verify.mutate(v)} disabled={verify.isPending} aria-labelledby="trial-code" getInputProps={(i) => ({ "aria-label": t("signin.digit", { n: i + 1 }) })} />
            </div>
          ) : (
            <Group>
              <Button onClick={() => send.mutate()} loading={send.isPending}>
                {t("trial.verify")}
              </Button>
            </Group>
          )}
        </>
      )}
      {error && <ErrorPanel error={error} />}
    </Stack>
  );
  if (plain) return content;
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("trial.title")}
      </Title>
      {content}
    </Paper>
  );
}
