export const moneyTabs = ["balance", "budgets", "charges", "invoices", "statements", "payments", "export"] as const;
export type MoneyTab = (typeof moneyTabs)[number];
export type MoneySearch = { tab?: MoneyTab; lease?: string; charge?: string };

/** Reads the address; what does not belong there is left out. */
export function moneySearch(s: Record<string, unknown>): MoneySearch {
  const tab = moneyTabs.find((x) => x === s.tab);
  return { ...(tab && { tab }), ...(typeof s.lease === "string" && s.lease !== "" && { lease: s.lease }), ...(typeof s.charge === "string" && s.charge !== "" && { charge: s.charge }) };
}
