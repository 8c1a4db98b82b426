import { Text, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { useMe } from "../me";

/**
 * Formats an amount of money. Amounts are decimal texts and are never made into
 * numbers that cannot hold them.
 */
export function money(amount: string, currency: string, language: string, digits?: number): string {
  const format = new Intl.NumberFormat(language, {
    style: "currency",
    currency,
    minimumFractionDigits: 2,
    maximumFractionDigits: digits ?? 6,
  });
  return format.format(amount as unknown as number); // texts are formatted exactly
}

export function Money({ amount, currency, per }: { amount: string; currency: string; per?: "hour" | "month" | "day" }) {
  const { t, i18n } = useTranslation();
  return (
    <span className="figure">
      {money(amount, currency, i18n.language)}
      {per && <Text component="span" size="xs" c="dimmed">{` ${t(`unit.per_${per}`)}`}</Text>}
    </span>
  );
}

/** A moment in the person's time zone; with the exact one on hover and focus. */
export function Time({ at, relative }: { at?: string | null; relative?: boolean }) {
  const { i18n } = useTranslation();
  const zone = useMe()?.account.time_zone;
  if (!at) return <span>–</span>;
  const date = new Date(at);
  const exact = new Intl.DateTimeFormat(i18n.language, { dateStyle: "medium", timeStyle: "long", timeZone: zone }).format(date);
  const short = relative ? ago(date, i18n.language) : new Intl.DateTimeFormat(i18n.language, { dateStyle: "medium", timeStyle: "short", timeZone: zone }).format(date);
  return (
    <Tooltip label={exact} events={{ hover: true, focus: true, touch: true }}>
      <time dateTime={at}>{short}</time>
    </Tooltip>
  );
}

const steps: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [3600, "minute"],
  [86400, "hour"],
  [86400 * 30, "day"],
  [86400 * 365, "month"],
];

/** How long ago or ahead a moment is, in words. */
export function ago(date: Date, language: string, now = Date.now()): string {
  const seconds = (date.getTime() - now) / 1000;
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  let size = 1;
  for (const [limit, unit] of steps) {
    if (Math.abs(seconds) < limit) return format.format(Math.trunc(seconds / size), unit);
    size = limit;
  }
  return format.format(Math.trunc(seconds / size), "year");
}

/** Formats a length of time in seconds as up to two units, such as "2 hr 5 min". */
export function duration(seconds: number, language: string): string {
  const units: [string, number][] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const parts: string[] = [];
  let rest = Math.max(0, Math.trunc(seconds));
  for (const [unit, size] of units) {
    const n = Math.trunc(rest / size);
    rest -= n * size;
    if (n > 0 || (unit === "second" && parts.length === 0)) parts.push(new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "short" }).format(n));
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** Formats a size in MiB as GiB where that is shorter. */
export function mib(size: number, language: string): string {
  const format = (n: number) => new Intl.NumberFormat(language, { maximumFractionDigits: 1 }).format(n);
  return size >= 1024 ? `${format(size / 1024)} GiB` : `${format(size)} MiB`;
}
