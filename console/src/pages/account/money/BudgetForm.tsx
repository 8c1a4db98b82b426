import { Button, Group, Modal, Radio, SegmentedControl, Select, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { DateTimePicker } from "@mantine/dates";
import { useForm } from "@mantine/form";
import { useEffect } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, once, type Schema } from "../../../api/client";
import { useMe } from "../../../me";
import { useAct } from "../../../ui/act";
import { Dates, moment } from "../../../ui/Dates";
import { ErrorPanel } from "../../../ui/errors";
import { useUsers } from "./users";

type Budget = Schema["Budget"];

/** A share in per cent, of at most two decimals, up to ten times the amount. */
const percent = /^(?:0*[1-9]\d{0,2}|1000|0*\d{1,3}\.\d{1,2})$/;
const clean = (s: string) => s.replace(/\s*%$/, "").trim();
const decimal = /^\d{1,12}(\.\d{1,6})?$/;
const shares = (list: string[], forecast: boolean) => list.map((s) => ({ share_basis_points: Math.round(Number(clean(s)) * 100), ...(forecast && { forecast: true }) }));
const shown = (b: Budget | undefined, forecast: boolean) => (b?.thresholds ?? []).filter((x) => !!x.forecast === forecast).map((x) => String(x.share_basis_points / 100));

/** Asks for a budget, or for what is to change about one. */
export function BudgetForm({ budget: b, close }: { budget?: Budget; close: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal opened onClose={close} title={b ? t("budget.change.title", { name: b.name }) : t("budget.make")} closeButtonProps={{ "aria-label": t("action.close") }}>
      <Dates>
        <Fields budget={b} close={close} />
      </Dates>
    </Modal>
  );
}

function Fields({ budget: b, close }: { budget?: Budget; close: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const users = useUsers();
  const currency = b?.currency ?? me?.account.currency ?? "";
  const zone = me?.account.time_zone ?? "UTC";
  const good = (list: string[]) => (list.every((s) => percent.test(clean(s)) && Number(clean(s)) > 0) ? null : t("budget.bad_share"));
  const form = useForm({
    initialValues: {
      name: b?.name ?? "",
      amount: b ? b.amount.replace(/\.?0+$/, "") : "",
      scope: (b?.user_id ? "user" : b?.label ? "label" : "all") as "all" | "label" | "user",
      label: b?.label ?? "",
      user_id: b?.user_id ?? (null as string | null),
      fixed: b?.fixed ? "fixed" : "month",
      from: null as string | null,
      to: null as string | null,
      spent: b ? shown(b, false) : ["50", "80", "100"],
      forecast: b ? shown(b, true) : ["100"],
      action: (b?.action ?? "tell") as Budget["action"],
    },
    validate: {
      name: (v) => (v.trim() ? null : t("form.needed")),
      amount: (v) => (decimal.test(v.trim()) && Number(v) > 0 ? null : t("budget.bad_amount")),
      label: (v, all) => (all.scope !== "label" || /^[^=]+=/.test(v) ? null : t("budget.bad_label")),
      user_id: (v, all) => (all.scope !== "user" || v ? null : t("form.needed")),
      from: (v, all) => (!b && all.fixed === "fixed" && !v ? t("form.needed") : null),
      to: (v, all) => (!b && all.fixed === "fixed" && !v ? t("form.needed") : null),
      spent: good,
      forecast: good,
    },
  });
  const save = useAct(
    (v: typeof form.values, key) => {
      const thresholds = [...shares(v.spent, false), ...shares(v.forecast, true)];
      const body = { name: v.name.trim(), amount: v.amount.trim(), action: v.action, thresholds };
      return b
        ? data(api.PATCH("/v1/budgets/{budget_id}", { params: { path: { budget_id: b.id } }, body }))
        : data(
            api.POST("/v1/budgets", {
              params: { header: once(key) },
              body: {
                ...body,
                ...(v.scope === "label" && { label: v.label.trim() }),
                ...(v.scope === "user" && v.user_id && { user_id: v.user_id }),
                ...(v.fixed === "fixed" && v.from && v.to && { from: moment(v.from, zone), to: moment(v.to, zone) }),
              },
            }),
          );
    },
    { keys: [["budgets"]], quiet: true, after: close },
  );
  const { setFieldError } = form;
  useEffect(() => {
    const name = save.error instanceof ApiError ? save.error.field.replace(/^body\./, "") : "";
    if (name && name in form.values) setFieldError(name, save.error!.message);
  }, [save.error]); // eslint-disable-line react-hooks/exhaustive-deps
  const v = form.values;
  return (
    <form noValidate onSubmit={form.onSubmit((x) => save.mutate(x))}>
      <Stack>
        <TextInput label={t("budget.name")} data-autofocus withAsterisk maxLength={63} autoComplete="off" {...form.getInputProps("name")} />
        <TextInput label={t("budget.amount", { currency })} description={t(v.fixed === "fixed" ? "budget.amount.once" : "budget.amount.month")} inputMode="decimal" withAsterisk autoComplete="off" {...form.getInputProps("amount")} />
        {!b && (
          <>
            <Select label={t("budget.scope")} allowDeselect={false} data={(["all", "label", "user"] as const).map((x) => ({ value: x, label: t(`budget.counts.${x}`) }))} {...form.getInputProps("scope")} />
            {v.scope === "label" && <TextInput label={t("budget.label")} placeholder="team=vision" withAsterisk autoComplete="off" {...form.getInputProps("label")} />}
            {v.scope === "user" && <Select label={t("budget.user")} withAsterisk searchable data={users.map((u) => ({ value: u.id, label: u.email }))} {...form.getInputProps("user_id")} />}
            <SegmentedControl aria-label={t("budget.period")} data={(["month", "fixed"] as const).map((x) => ({ value: x, label: t(`budget.each.${x}`) }))} {...form.getInputProps("fixed")} />
            {v.fixed === "fixed" && (
              <>
                <DateTimePicker label={t("cost.from")} description={t("zone.shown", { zone })} withAsterisk clearable {...form.getInputProps("from")} />
                <DateTimePicker label={t("cost.to")} withAsterisk clearable {...form.getInputProps("to")} />
              </>
            )}
          </>
        )}
        <TagsInput label={t("budget.tell.spent")} description={t("budget.tell.help")} maxTags={10} {...form.getInputProps("spent")} />
        <TagsInput label={t("budget.tell.forecast")} maxTags={10} {...form.getInputProps("forecast")} />
        <Radio.Group label={t("budget.then")} {...form.getInputProps("action")}>
          <Stack gap="xs" mt="xs">
            {(["tell", "refuse", "stop"] as const).map((x) => (
              <Radio key={x} value={x} label={t(`budget.action.${x}`)} description={t(`budget.action.${x}.means`)} />
            ))}
          </Stack>
        </Radio.Group>
        {save.error && <ErrorPanel error={save.error} />}
        <Text size="xs" c="dimmed">
          {t("budget.holds")}
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {t("action.cancel")}
          </Button>
          <Button type="submit" loading={save.isPending}>
            {t(b ? "save" : "budget.make")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
