import { Group } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { moment } from "../../ui/Dates";
import { FormButton, type Field, type Values } from "../../ui/FormDialog";
import { useMe } from "../../me";

type Kind = "deposit" | "transfer" | "refund";

/** Money that an operator enters for an account: given, paid in, or given back. */
export function AccountMoney({ account }: { account: Schema["Account"] }) {
  const { t } = useTranslation();
  return (
    <Group gap="xs">
      <Grant account={account} />
      {(["transfer", "deposit", "refund"] as const).map((kind) => (
        <Entry key={kind} kind={kind} account={account} label={t(`op.money.${kind}`)} />
      ))}
    </Group>
  );
}

function Entry({ kind, account, label }: { kind: Kind; account: Schema["Account"]; label: string }) {
  const { t } = useTranslation();
  const fields: Field[] = [
    { name: "amount", label: t("payout.amount"), kind: "money", unit: account.currency, required: true },
    { name: "reference", label: t("op.money.reference"), help: t("op.money.reference_about") },
  ];
  const run = (v: Values, key: string): Promise<unknown> => {
    const params = { header: once(key) };
    const body = { account_id: account.id, amount: v.amount.trim(), reference: v.reference.trim() || undefined };
    if (kind === "deposit") return data(api.POST("/v1/operator/deposits", { params, body }));
    if (kind === "refund") return data(api.POST("/v1/operator/refunds", { params, body }));
    return data(api.POST("/v1/operator/bank-transfers", { params, body }));
  };
  return <FormButton title={label} about={t(`op.money.${kind}.about`)} action={label} danger={kind === "refund"} done={t("done")} keys={[["operator"], ["balance"]]} fields={fields} run={run} />;
}

function Grant({ account }: { account: Schema["Account"] }) {
  const { t } = useTranslation();
  const zone = useMe()?.account.time_zone ?? "UTC";
  return (
    <FormButton
      title={t("op.money.grant")}
      about={t("op.money.grant.about")}
      action={t("op.money.grant")}
      done={t("done")}
      keys={[["operator"]]}
      fields={[
        { name: "kind", label: t("op.grant.kind"), kind: "choice", required: true, initial: "promotion", choices: (["promotion", "trial"] as const).map((value) => ({ value, label: t(`op.grant.kind.${value}`) })) },
        { name: "amount", label: t("payout.amount"), kind: "money", unit: account.currency, required: true },
        { name: "valid_days", label: t("op.grant.valid_days"), help: t("op.grant.valid_days_about"), kind: "number", min: 1, max: 3650 },
        { name: "expires_at", label: t("op.grant.expires_at"), help: t("zone.shown", { zone }), kind: "moment" },
        { name: "meters", label: t("op.grant.meters"), help: t("op.grant.meters_about"), kind: "tags" },
        { name: "reference", label: t("op.reason") },
      ]}
      run={(v, key) =>
        data(
          api.POST("/v1/operator/grants", {
            params: { header: once(key) },
            body: {
              account_id: account.id,
              kind: v.kind,
              amount: v.amount.trim(),
              valid_seconds: v.valid_days ? v.valid_days * 86_400 : undefined,
              expires_at: v.expires_at ? moment(v.expires_at, zone) : undefined,
              meters: v.meters.length ? v.meters : undefined,
              reference: v.reference.trim() || undefined,
            },
          }),
        )
      }
    />
  );
}
