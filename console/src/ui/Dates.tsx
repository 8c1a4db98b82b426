import "@mantine/dates/styles.layer.css";
import "dayjs/locale/zh-cn";
import { DatesProvider } from "@mantine/dates";
import dayjs from "dayjs";
import timezone from "dayjs/plugin/timezone";
import utc from "dayjs/plugin/utc";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

dayjs.extend(utc);
dayjs.extend(timezone);

/** What is around fields for dates: their language, and the first day of the week. */
export function Dates({ children }: { children: ReactNode }) {
  const { i18n } = useTranslation();
  return <DatesProvider settings={{ locale: i18n.language === "zh-CN" ? "zh-cn" : "en", firstDayOfWeek: 1 }}>{children}</DatesProvider>;
}

/** The moment at which a clock in the zone shows this, as the API takes it. */
export const moment = (wall: string, zone: string) => dayjs.tz(wall, zone).toISOString();

/** What a clock in the zone shows at a moment; the opposite of moment. */
export const wall = (at: string, zone: string) => dayjs(at).tz(zone).format("YYYY-MM-DD HH:mm:ss");

/** The day that it is now in the zone, moved by days. */
export const dayIn = (zone: string, days = 0) => dayjs().tz(zone).add(days, "day").format("YYYY-MM-DD");
