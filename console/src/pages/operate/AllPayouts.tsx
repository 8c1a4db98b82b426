import { Group, Select } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { FormButton, type Field } from "../../ui/FormDialog";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { useUrlText } from "../../ui/urlstate";
import { PayoutTable, type Payout } from "../host/PayoutTable";

type Event = Schema["MarkPayout"]["event"];

const states = ["requested", "approved", "paid", "failed", "declined", "returned"] as const;

// What can happen to a payout next, by its state.
const next: Record<Payout["state"], Event[]> = { requested: ["approve", "decline"], approved: ["pay", "fail", "decline"], paid: ["return"], failed: [], declined: [], returned: [] };

/** Payouts to all providers: made in batches, then marked as the bank does them. */
export function AllPayouts() {
  const { t } = useTranslation();
  const [state, setState] = useUrlText("state");
  const list = usePages<Payout>(["operator", "payouts", state], (cursor, signal) => data(api.GET("/v1/operator/payouts", { params: { query: { cursor, limit: 100, state: (state || undefined) as Payout["state"] | undefined } }, signal })), { refetchInterval: 30_000 });
  return (
    <Page title={t("nav.op.payouts")} about={t("op.payouts.about")} actions={<Batch />}>
      <Group>
        <Select clearable placeholder={t("host.any_state")} aria-label={t("host.state")} value={state || null} onChange={(v) => setState(v ?? "")} data={states.map((s) => ({ value: s, label: t(`payout.state.${s}`) }))} />
      </Group>
      {list.error ? (
        <ErrorPanel error={list.error} retry={list.retry} />
      ) : !list.first && list.rows.length === 0 ? (
        <Empty title={t("op.payouts.empty.title")} text={t("op.payouts.empty.text")} />
      ) : (
        <PayoutTable
          owners
          rows={list.rows}
          more={list.more}
          loading={list.first || list.loading}
          actions={(p) => (
            <Group gap={4} wrap="nowrap">
              {next[p.state].map((event) => (
                <Mark key={event} payout={p} event={event} />
              ))}
            </Group>
          )}
        />
      )}
    </Page>
  );
}

function Mark({ payout, event }: { payout: Payout; event: Event }) {
  const { t } = useTranslation();
  const fields: Field[] = event === "approve" ? [] : [event === "pay" ? { name: "reference", label: t("op.payouts.reference"), required: true } : { name: "reason", label: t("op.reason"), required: true }];
  return (
    <FormButton
      size="xs"
      label={t(`op.payouts.${event}`)}
      title={t(`op.payouts.${event}`)}
      about={t(`op.payouts.${event}_about`)}
      action={t(`op.payouts.${event}`)}
      danger={event !== "approve" && event !== "pay"}
      done={t("done")}
      keys={[["operator", "payouts"]]}
      fields={fields}
      run={(v) => data(api.POST("/v1/operator/payouts/{payout_id}/mark", { params: { path: { payout_id: payout.id } }, body: { event, reference: v.reference || undefined, reason: v.reason || undefined } }))}
    />
  );
}

function Batch() {
  const { t } = useTranslation();
  return (
    <FormButton
      title={t("op.payouts.batch")}
      about={t("op.payouts.batch_about")}
      action={t("op.payouts.batch")}
      variant="filled"
      done={t("done")}
      keys={[["operator", "payouts"]]}
      fields={[
        { name: "batch", label: t("op.payouts.name"), help: t("op.payouts.name_about"), required: true },
        { name: "currency", label: t("op.account.currency"), help: t("op.payouts.all_currencies"), kind: "choice", choices: ["USD", "CNY"].map((value) => ({ value, label: value })) },
        { name: "minimum", label: t("op.payouts.minimum"), help: t("op.payouts.minimum_about"), kind: "money" },
        { name: "account_ids", label: t("op.payouts.only"), help: t("op.payouts.only_about"), kind: "tags" },
      ]}
      run={(v) => data(api.POST("/v1/operator/payouts", { body: { batch: v.batch.trim(), currency: v.currency ?? undefined, minimum: v.minimum.trim() || undefined, account_ids: v.account_ids.length ? v.account_ids : undefined } }))}
    />
  );
}
