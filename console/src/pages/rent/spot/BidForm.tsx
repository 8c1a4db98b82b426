import { Accordion, Button, Group, Modal, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";
import { Money } from "../../../ui/format";
import { Simulated } from "../../../ui/simulated";
import { Keys } from "../order/Keys";
import { useTemplates } from "../order/templates";
import { Advice } from "./Advice";
import { none } from "./search";

const decimal = /^\d{1,9}(\.\d{1,9})?$/;

/** Where a bid on the spot market is made. */
export function BidForm({ market, gpus, template, close }: { market: Schema["SpotMarket"]; gpus: number; template: string | undefined; close: () => void }) {
  const { t, i18n } = useTranslation();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const templates = useTemplates();
  const good = market.goods.find((g) => g.gpus === gpus);
  const form = useForm({
    initialValues: { bid: "", max: "", template: template ?? null, disk: "" as number | string, name: "", stopHours: "" as number | string, cap: "" as number | string },
    validate: { bid: (v) => (decimal.test(v) ? null : t("bid.bad")), max: (v) => (v === "" || decimal.test(v) ? null : t("bid.bad")), template: (v) => (v ? null : t("bid.need_template")) },
  });
  useEffect(() => {
    if (!form.values.template && templates?.[0]) form.setFieldValue("template", template ?? templates[0].name);
  }, [templates]); // eslint-disable-line react-hooks/exhaustive-deps
  const [typed] = useDebouncedValue(form.values.bid, 400);
  const [key, setKey] = useState(newKey);
  const decision = JSON.stringify(form.values);
  useEffect(() => setKey(newKey()), [decision]);
  const make = useMutation({
    mutationFn: (v: typeof form.values) =>
      data(
        api.POST("/v1/bids", {
          params: { header: once(key) },
          body: {
            gpu_model: market.gpu_model,
            zone: market.zone,
            gpus,
            simulated: market.simulated,
            bid_per_gpu_hour: v.bid,
            template: v.template ?? undefined,
            ...(v.max && { max_per_gpu_hour: v.max }),
            ...(v.disk !== "" && { disk_gib: Number(v.disk) }),
            ...(v.name.trim() && { name: v.name.trim() }),
            ...(v.stopHours !== "" && { stop_at: new Date(Date.now() + Number(v.stopHours) * 3600_000).toISOString() }),
            ...(v.cap !== "" && { spending_cap: String(v.cap) }),
          },
        }),
      ),
    onSuccess: (b) => {
      void queries.invalidateQueries({ queryKey: ["bids"] });
      close();
      if (b.lease_id) void navigate({ to: "/leases/$leaseId", params: { leaseId: b.lease_id } });
      else void navigate({ to: "/spot", search: (s: Record<string, unknown>) => ({ ...s, bid: undefined, tab: "bids" as const }) });
    },
  });
  return (
    <Modal opened onClose={close} size="lg" title={t("bid.title", { what: `${gpus} × ${market.gpu_model}`, zone: market.zone })} closeButtonProps={{ "aria-label": t("action.close") }}>
      <form onSubmit={form.onSubmit((v) => make.mutate(v))}>
        <Stack>
          <Group gap="xs">
            <Simulated simulated={market.simulated} />
            <Text size="sm">
              {none(good?.ask_per_gpu_hour) ? (
                t("spot.no_ask")
              ) : (
                <>
                  {t("bid.ask")} <Money amount={good!.ask_per_gpu_hour} currency={market.currency} per="hour" />
                </>
              )}
            </Text>
          </Group>
          <TextInput data-autofocus label={t("bid.amount", { currency: market.currency })} description={t("bid.amount.help")} inputMode="decimal" placeholder={good && !none(good.ask_per_gpu_hour) ? good.ask_per_gpu_hour.replace(/0+$/, "") : "0.25"} required {...form.getInputProps("bid")} />
          <Advice zone={market.zone} model={market.gpu_model} gpus={gpus} bid={decimal.test(typed) && !none(typed) ? typed : undefined} use={(bid) => form.setFieldValue("bid", bid)} />
          <Select label={t("order.template")} searchable required allowDeselect={false} data={(templates ?? []).map((x) => ({ value: x.name, label: (i18n.language === "zh-CN" && x.title_zh) || x.title }))} {...form.getInputProps("template")} />
          <Keys />
          <Accordion variant="contained">
            <Accordion.Item value="more">
              <Accordion.Control>{t("order.limits")}</Accordion.Control>
              <Accordion.Panel>
                <Stack gap="sm">
                  <TextInput label={t("order.name")} placeholder={t("order.name.auto")} maxLength={63} {...form.getInputProps("name")} />
                  <TextInput label={t("bid.max")} description={t("bid.max.help")} inputMode="decimal" {...form.getInputProps("max")} />
                  <NumberInput label={t("order.disk")} suffix=" GiB" min={1} allowDecimal={false} placeholder={t("order.by_template")} {...form.getInputProps("disk")} />
                  <NumberInput label={t("order.stop_after")} suffix=" h" min={1} max={87_600} placeholder={t("order.never")} {...form.getInputProps("stopHours")} />
                  <NumberInput label={t("order.cap", { currency: market.currency })} description={t("order.cap.help")} min={0} decimalScale={6} placeholder={t("order.none")} {...form.getInputProps("cap")} />
                </Stack>
              </Accordion.Panel>
            </Accordion.Item>
          </Accordion>
          {make.error && <ErrorPanel error={make.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t("action.cancel")}
            </Button>
            <Button type="submit" loading={make.isPending}>
              {t("bid.submit")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
