/** What is to run on an offer; it is in the address. */
export type OrderSearch = { template?: string; image?: string; disk?: number; hours?: number; plan?: "monthly"; term?: number };

const number = (v: unknown, most: number) => (Number.isSafeInteger(v) && (v as number) > 0 && (v as number) <= most ? (v as number) : undefined);
const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);

/** Reads the address; what does not belong there is left out. */
export function orderSearch(s: Record<string, unknown>): OrderSearch {
  const all: OrderSearch = { template: text(s.template), image: text(s.image), disk: number(s.disk, 1 << 24), hours: number(s.hours, 87_600), plan: s.plan === "monthly" ? "monthly" : undefined, term: number(s.term, 12) };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined));
}
