import { List } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { duration, money } from "../../../ui/format";

type Offer = Schema["TrialOffer"];

/** What a trial is worth, for how long, and where it ends. */
export function TrialTerms({ offer: o }: { offer: Pick<Offer, "amount" | "currency" | "valid_seconds" | "max_concurrent_gpus" | "egress_ports"> }) {
  const { t, i18n } = useTranslation();
  return (
    <List size="sm" spacing={4}>
      <List.Item>{t("trial.worth", { amount: money(o.amount, o.currency, i18n.language) })}</List.Item>
      <List.Item>{t("trial.lasts", { time: duration(o.valid_seconds, i18n.language) })}</List.Item>
      <List.Item>{t("trial.ends")}</List.Item>
      {o.max_concurrent_gpus > 0 && <List.Item>{t("trial.gpus", { count: o.max_concurrent_gpus })}</List.Item>}
      {o.egress_ports.length > 0 && <List.Item>{t("trial.ports", { ports: o.egress_ports.join(", ") })}</List.Item>}
    </List>
  );
}
