import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { useMe } from "../../../me";
import { money } from "../../../ui/format";

export type News = Schema["Notification"];

/** The kinds of news there are. */
export const kinds = [
  "balance.low",
  "balance.exhausted",
  "lease.spot_notice",
  "lease.interrupted",
  "lease.resumed",
  "lease.failed",
  "lease.stopped_for_balance",
  "storage.deletion_planned",
  "storage.deleted",
  "invoice.issued",
  "invoice.due",
  "invoice.overdue",
  "budget.reached",
  "price_change.proposed",
  "reservation.expiring",
  "payment.received",
  "waiting_request.started",
  "waiting_request.held_back",
  "waiting_request.expired",
  "waiting_request.failed",
  "webhook.disabled",
] as const;

const sums = ["funds", "burn_per_hour", "debt", "total", "open", "amount", "spent", "forecast", "per_hour", "new_per_hour", "next_price"];
const times = ["until", "delete_at", "interrupt_at", "from", "to", "due_at", "stop_at", "effective_at", "answer_by", "failing_since", "expires_at"];

/** A piece of news as a title and a sentence, with its sums and times as people write them. */
export function useNewsText() {
  const { t, i18n } = useTranslation();
  const timeZone = useMe()?.account.time_zone;
  return (n: News) => {
    const given = (n.data ?? {}) as Record<string, unknown>;
    const currency = typeof given.currency === "string" ? given.currency : "USD";
    const values: Record<string, string> = { subject: n.subject };
    for (const [k, v] of Object.entries(given)) {
      if (sums.includes(k) && typeof v === "string") values[k] = money(v, currency, i18n.language);
      else if (times.includes(k) && typeof v === "string") values[k] = new Intl.DateTimeFormat(i18n.language, { dateStyle: "medium", timeStyle: "short", timeZone }).format(new Date(v));
      else if (k === "share_basis_points" && typeof v === "number") values[k] = new Intl.NumberFormat(i18n.language, { style: "percent" }).format(v / 10_000);
      else values[k] = String(v);
    }
    const known = i18n.exists(`news.${n.kind}`);
    return { title: known ? t(`news.${n.kind}`) : n.kind, text: known ? t(`news.${n.kind}.text`, values) : n.subject };
  };
}

type Place = { to: "/leases/$leaseId"; params: { leaseId: string } } | { to: "/money"; search: { tab?: "invoices" | "payments" } } | { to: "/account/webhooks" } | { to: "/leases" };

/** Where a piece of news leads to. */
export function placeOf(n: News): Place {
  if (n.kind.startsWith("invoice.")) return { to: "/money", search: { tab: "invoices" } };
  if (n.kind.startsWith("payment.")) return { to: "/money", search: { tab: "payments" } };
  if (n.kind.startsWith("balance.") || n.kind.startsWith("budget.")) return { to: "/money", search: {} };
  if (n.kind.startsWith("webhook.")) return { to: "/account/webhooks" };
  if (n.subject.startsWith("ls-")) return { to: "/leases/$leaseId", params: { leaseId: n.subject } };
  return { to: "/leases" };
}
