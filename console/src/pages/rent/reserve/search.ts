/** What a reservation is asked for; all of it is in the address. */
export type ReserveSearch = { offer?: string; model?: string; gpus?: number; zone?: string; payment?: Payment; term?: number; simulated?: boolean };

export const payments = ["none", "partial", "all"] as const;
export type Payment = (typeof payments)[number];

/** Terms in months that stand side by side; hosts say which of them they offer. */
export const terms = [1, 3, 6, 12] as const;

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);

/** Reads the address; what does not belong there is left out. */
export function reserveSearch(s: Record<string, unknown>): ReserveSearch {
  const gpus = Number(s.gpus);
  const all: ReserveSearch = {
    offer: text(s.offer),
    model: text(s.model),
    gpus: Number.isSafeInteger(gpus) && gpus > 0 ? gpus : undefined,
    zone: text(s.zone),
    payment: payments.find((p) => p === s.payment),
    term: terms.find((x) => x === Number(s.term)),
    simulated: s.simulated === true || undefined,
  };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined));
}

/** Whether a reservation is over for good. */
export const over = (state: string) => state === "ended" || state === "cancelled";

export const colors: Record<string, string> = { scheduled: "blue", active: "green", undelivered: "orange", suspended: "red", ending: "yellow", ended: "gray", cancelled: "gray" };
