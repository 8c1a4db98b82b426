import { Tabs } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { Page } from "../../ui/Page";
import { Balance } from "./money/Balance";
import { Budgets } from "./money/Budgets";
import { Charges } from "./money/Charges";
import { Export } from "./money/Export";
import { Invoices } from "./money/Invoices";
import { Payments } from "./money/Payments";
import { moneyTabs, type MoneySearch, type MoneyTab } from "./money/search";
import { Statements } from "./money/Statements";

const parts = { balance: Balance, budgets: Budgets, charges: Charges, invoices: Invoices, statements: Statements, payments: Payments, export: Export };

/** What the account has, spends and owes. */
export function Money() {
  const { t } = useTranslation();
  const search = useSearch({ strict: false }) as MoneySearch;
  const navigate = useNavigate();
  const tab = search.tab ?? "balance";
  const Part = parts[tab];
  return (
    <Page title={t("money.title")} about={t("money.about")}>
      <Tabs value={tab} onChange={(v) => void navigate({ to: "/money", search: v === "balance" || !v ? {} : { tab: v as MoneyTab } })} keepMounted={false}>
        <Tabs.List mb="md" aria-label={t("money.title")}>
          {moneyTabs.map((x) => (
            <Tabs.Tab key={x} value={x}>
              {t(`money.tab.${x}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab}>
          <Part />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
