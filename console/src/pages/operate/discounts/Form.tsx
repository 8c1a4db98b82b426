import { ActionIcon, Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { randomId } from "@mantine/hooks";
import { IconPlus, IconX } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../../api/client";
import { useAct } from "../../../ui/act";
import { ErrorPanel } from "../../../ui/errors";
import { basisPoints } from "../pricelists";

type Tiers = Schema["SetVolumeTiers"];

const row = (from = "", percent = "") => ({ key: randomId(), from, percent });

/** Asks for the tiers of a currency, and sets them. */
export function DiscountForm({ onClose, initial }: { onClose: () => void; initial: Tiers }) {
  const { t } = useTranslation();
  const form = useForm({
    initialValues: { currency: initial.currency as "CNY" | "USD", tiers: (initial.tiers ?? []).map((x) => row(x.from, String(x.basis_points / 100))) },
    validate: {
      tiers: {
        from: (v: string) => (/^\d+(\.\d{1,6})?$/.test(v.trim()) ? null : t("op.discount.bad_from")),
        percent: (v: string) => (basisPoints(v) < 0 ? t("op.discount.bad_percent") : null),
      },
    },
  });
  const set = useAct((v: Tiers, key) => data(api.POST("/v1/operator/volume-discounts", { params: { header: once(key) }, body: v })), { keys: [["operator", "discounts"]], quiet: true, done: t("op.discount.done"), after: onClose });
  return (
    <form noValidate onSubmit={form.onSubmit((v) => set.mutate({ currency: v.currency, tiers: v.tiers.map((x) => ({ from: x.from.trim(), basis_points: basisPoints(x.percent) })) }))}>
      <Stack>
        <Text size="sm">{t("op.discount.new_about")}</Text>
        <Select label={t("op.discount.currency")} allowDeselect={false} data={["CNY", "USD"]} {...form.getInputProps("currency")} />
        {form.values.tiers.length === 0 && (
          <Text size="sm" c="dimmed">
            {t("op.discount.none")}
          </Text>
        )}
        {form.values.tiers.map((x, i) => (
          <Group key={x.key} align="flex-start" wrap="nowrap" gap="xs" role="group" aria-label={t("op.discount.tier", { n: i + 1 })}>
            <TextInput flex={1} label={t("op.discount.from")} inputMode="decimal" autoComplete="off" {...form.getInputProps(`tiers.${i}.from`)} />
            <TextInput flex={1} label={t("op.discount.percent")} inputMode="decimal" autoComplete="off" rightSection={<Text size="xs">%</Text>} {...form.getInputProps(`tiers.${i}.percent`)} />
            <ActionIcon mt={25} size="lg" variant="subtle" color="gray" aria-label={t("op.discount.drop", { n: i + 1 })} onClick={() => form.removeListItem("tiers", i)}>
              <IconX size={16} />
            </ActionIcon>
          </Group>
        ))}
        <Group>
          <Button size="xs" variant="default" leftSection={<IconPlus size={14} />} disabled={form.values.tiers.length >= 20} onClick={() => form.insertListItem("tiers", row())}>
            {t("op.discount.add")}
          </Button>
        </Group>
        {set.error && <ErrorPanel error={set.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("action.cancel")}
          </Button>
          <Button type="submit" loading={set.isPending}>
            {t("op.discount.set")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
