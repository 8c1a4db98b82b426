import "@mantine/dates/styles.layer.css";
import "dayjs/locale/zh-cn";
import { MantineThemeProvider } from "@mantine/core";
import { DatesProvider } from "@mantine/dates";
import dayjs from "dayjs";
import timezone from "dayjs/plugin/timezone";
import utc from "dayjs/plugin/utc";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

dayjs.extend(utc);
dayjs.extend(timezone);

const formats = { DatePickerInput: "YYYY年M月D日", MonthPickerInput: "YYYY年M月", DateTimePicker: "YYYY年M月D日 HH:mm" };
const chinese = { components: Object.fromEntries(Object.entries(formats).map(([name, valueFormat]) => [name, { defaultProps: { valueFormat } }])) };

/** What is around fields for dates: their language, and the first day of the week. */
export function Dates({ children }: { children: ReactNode }) {
  const { i18n } = useTranslation();
  const zh = i18n.language === "zh-CN";
  return (
    <MantineThemeProvider theme={zh ? chinese : undefined}>
      <DatesProvider settings={{ locale: zh ? "zh-cn" : "en", firstDayOfWeek: 1 }}>{children}</DatesProvider>
    </MantineThemeProvider>
  );
}

/** The moment at which a clock in the zone shows this, as the API takes it. */
export const moment = (wall: string, zone: string) => dayjs.tz(wall, zone).toISOString();

/** What a clock in the zone shows at a moment; the opposite of moment. */
export const wall = (at: string, zone: string) => dayjs(at).tz(zone).format("YYYY-MM-DD HH:mm:ss");

/** The day that it is now in the zone, moved by days. */
export const dayIn = (zone: string, days = 0) => dayjs().tz(zone).add(days, "day").format("YYYY-MM-DD");
