import { Group, SimpleGrid, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { Button } from "@mantine/core";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { FormButton } from "../../ui/FormDialog";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { AccountMoney } from "./AccountMoney";
import { AccountGrants, AccountInvoices } from "./AccountPapers";
import { Suspended, zones } from "./Accounts";
import { Dues } from "./Dues";

type Account = Schema["Account"];

/** One account as an operator sees and changes it. */
export function AccountPage() {
  const { t } = useTranslation();
  const { accountId } = useParams({ strict: false }) as { accountId: string };
  const path = { params: { path: { account_id: accountId } } };
  const account = useQuery({ queryKey: ["operator", "accounts", accountId], queryFn: ({ signal }) => data(api.GET("/v1/operator/accounts/{account_id}", { ...path, signal })) });
  const credit = useQuery({
    queryKey: ["operator", "accounts", accountId, "credit"],
    queryFn: ({ signal }) => data(api.GET("/v1/operator/accounts/{account_id}/credit-limit", { ...path, signal })),
    refetchInterval: 30_000,
  });
  const a = account.data;
  const c = credit.data;
  if (account.error) {
    return (
      <Page title={t("op.account.one")}>
        <ErrorPanel error={account.error} retry={() => void account.refetch()} />
      </Page>
    );
  }
  return (
    <Page title={a?.name ?? t("op.account.one")} about={accountId} actions={a && <Changes account={a} />}>
      <Facts
        loading={!a}
        facts={[
          { name: t("host.state"), value: a && <Suspended account={a} /> },
          { name: t("op.account.currency"), value: a?.currency },
          { name: t("op.account.zone"), value: a?.time_zone },
          { name: t("op.account.max_leases"), value: a?.max_leases },
          { name: t("op.account.max_gpus"), value: a?.max_gpus },
          { name: t("op.created"), value: <Time at={a?.created_at} /> },
        ]}
      />
      <SimpleGrid cols={{ base: 1, xl: 2 }}>
        <Section title={t("op.credit.title")} about={t("op.credit.about")} actions={c && <Credit accountId={accountId} credit={c} />}>
          {credit.error ? (
            <ErrorPanel error={credit.error} retry={() => void credit.refetch()} />
          ) : (
            <Facts
              loading={!c}
              facts={[
                { name: t("op.credit.limit"), value: c && <Money amount={c.credit_limit} currency={c.currency} /> },
                { name: t("op.credit.used"), value: c && <Money amount={c.used} currency={c.currency} /> },
                { name: t("op.credit.net_days"), value: c?.net_days },
              ]}
            />
          )}
        </Section>
        <Section title={t("op.money.title")} about={t("op.money.about")}>{a ? <AccountMoney account={a} /> : <Skeleton height={90} />}</Section>
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, xl: 2 }}>
        <AccountGrants accountId={accountId} />
        <AccountInvoices accountId={accountId} />
      </SimpleGrid>
      <Dues accountId={accountId} />
    </Page>
  );
}

function Changes({ account: a }: { account: Account }) {
  const { t } = useTranslation();
  const keys = [["operator", "accounts"]];
  const path = { params: { path: { account_id: a.id } } };
  // What is written down already is what one changes.
  const profile = useQuery({ queryKey: ["operator", "accounts", a.id, "profile"], queryFn: ({ signal }) => data(api.GET("/v1/operator/accounts/{account_id}/billing-profile", { ...path, signal })) }).data;
  const patch = (body: Schema["UpdateAnyAccount"]) => data(api.PATCH("/v1/operator/accounts/{account_id}", { ...path, body }));
  const suspend = useAct((suspended: boolean) => patch({ suspended }), { keys, done: t("done") });
  const ask = async () => {
    if (a.suspended || (await confirm({ title: t("op.account.suspend.title", { name: a.name }), text: t("op.account.suspend.text"), action: t("op.account.suspend"), danger: true }))) suspend.mutate(!a.suspended);
  };
  return (
    <Group gap="xs">
      <FormButton
        title={t("op.account.change")}
        action={t("action.save")}
        done={t("done")}
        keys={keys}
        fields={[
          { name: "name", label: t("op.account.name"), required: true, initial: a.name },
          { name: "time_zone", label: t("op.account.zone"), kind: "choice", required: true, choices: zones(), initial: a.time_zone },
          { name: "max_leases", label: t("op.account.max_leases"), kind: "number", min: 0, required: true, initial: a.max_leases },
          { name: "max_gpus", label: t("op.account.max_gpus"), kind: "number", min: 0, required: true, initial: a.max_gpus },
        ]}
        run={(v) => patch({ name: v.name.trim(), time_zone: v.time_zone, max_leases: v.max_leases, max_gpus: v.max_gpus })}
      />
      {profile && <FormButton
        title={t("op.profile.title")}
        about={t("op.profile.about")}
        action={t("action.save")}
        done={t("done")}
        keys={keys}
        fields={[
          { name: "name", label: t("op.profile.name"), required: true, initial: profile.name || a.name },
          { name: "address", label: t("op.profile.address"), kind: "long", initial: profile.address ?? "" },
          { name: "tax_number", label: t("op.profile.tax_number"), initial: profile.tax_number ?? "" },
          { name: "jurisdiction", label: t("op.profile.jurisdiction"), help: t("op.profile.jurisdiction_about"), initial: profile.jurisdiction ?? "" },
        ]}
        run={(v) => data(api.PUT("/v1/operator/accounts/{account_id}/billing-profile", { ...path, body: { name: v.name.trim(), address: v.address || undefined, tax_number: v.tax_number || undefined, jurisdiction: v.jurisdiction || undefined } }))}
      />}
      <Button color={a.suspended ? undefined : "red"} variant={a.suspended ? "filled" : "light"} loading={suspend.isPending} onClick={() => void ask()}>
        {t(a.suspended ? "op.account.resume" : "op.account.suspend")}
      </Button>
    </Group>
  );
}

function Credit({ accountId, credit }: { accountId: string; credit: Schema["CreditLimit"] }) {
  const { t } = useTranslation();
  return (
    <FormButton
      title={t("op.credit.set")}
      about={t("op.credit.set_about")}
      action={t("action.save")}
      done={t("done")}
      keys={[["operator", "accounts", accountId]]}
      fields={[
        { name: "credit_limit", label: t("op.credit.limit"), kind: "money", unit: credit.currency, required: true, initial: credit.credit_limit },
        { name: "net_days", label: t("op.credit.net_days"), help: t("op.credit.net_days_about"), kind: "number", min: 0, initial: credit.net_days },
        { name: "reason", label: t("op.reason"), initial: credit.reason ?? "" },
      ]}
      run={(v) =>
        data(
          api.PUT("/v1/operator/accounts/{account_id}/credit-limit", {
            params: { path: { account_id: accountId } },
            body: { credit_limit: v.credit_limit.trim(), net_days: v.net_days === "" ? undefined : v.net_days, reason: v.reason || undefined },
          }),
        )
      }
    />
  );
}
