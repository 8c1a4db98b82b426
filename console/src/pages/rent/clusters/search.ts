/** What a cluster is asked for; all of it is in the address. */
export type ClusterSearch = { nodes?: number; gpus?: number; model?: string; zone?: string; region?: string; fast?: boolean; simulated?: boolean; template?: string; image?: string; disk?: number };

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);
const whole = (v: unknown, least: number, most: number) => (Number.isSafeInteger(v) && (v as number) >= least && (v as number) <= most ? (v as number) : undefined);

/** Reads the address; what does not belong there is left out. */
export function clusterSearch(s: Record<string, unknown>): ClusterSearch {
  const all: ClusterSearch = {
    nodes: whole(s.nodes, 2, 64),
    gpus: whole(s.gpus, 1, 64),
    model: text(s.model),
    zone: text(s.zone),
    region: text(s.region),
    fast: s.fast === true || undefined,
    simulated: s.simulated === true || undefined,
    template: text(s.template),
    image: text(s.image),
    disk: whole(s.disk, 1, 1 << 24),
  };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined));
}

/** Whether a cluster is over for good. */
export const over = (state: string) => state === "ended" || state === "failed";

export const colors: Record<string, string> = { queued: "gray", forming: "blue", running: "green", repairing: "orange", ending: "yellow", failing: "red", ended: "gray", failed: "red" };

export const runColors: Record<string, string> = { waiting: "gray", running: "green", halting: "yellow", succeeded: "green", failed: "red", stopped: "gray" };
/** Whether a run is over for good. */
export const runOver = (state: string) => state === "succeeded" || state === "failed" || state === "stopped";

export const policies = ["fail", "restart", "replace"] as const;
export type Policy = (typeof policies)[number];
