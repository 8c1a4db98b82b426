/** Which market is looked at; it is in the address. */
export type SpotSearch = { model?: string; zone?: string; gpus?: number; days?: number; bid?: boolean; template?: string; tab?: "bids" };

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);
const number = (v: unknown) => (Number.isSafeInteger(v) && (v as number) > 0 ? (v as number) : undefined);

/** Reads the address; what does not belong there is left out. */
export function spotSearch(s: Record<string, unknown>): SpotSearch {
  const all: SpotSearch = { model: text(s.model), zone: text(s.zone), gpus: number(s.gpus), days: [1, 7, 30].find((d) => d === s.days), bid: s.bid === true || undefined, template: text(s.template), tab: s.tab === "bids" ? "bids" : undefined };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined));
}

/** Whether an amount is nothing: the API's way to say that there is no price. */
export const none = (amount: string | undefined) => !amount || /^[0.]*$/.test(amount);
