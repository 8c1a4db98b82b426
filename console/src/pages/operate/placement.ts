import type { Placement } from "../rent/placement/Explain";

export const withins = ["rack", "leaf", "spine", "zone", "region"] as const;

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);
const whole = (v: unknown) => (Number.isSafeInteger(v) && (v as number) >= 0 ? (v as number) : undefined);

/** Reads the address; what does not belong there is left out. */
export function placementSearch(s: Record<string, unknown>): Placement {
  const all: Placement = {
    nodes: whole(s.nodes) || undefined,
    gpus: whole(s.gpus),
    cpu_millis: whole(s.cpu_millis),
    memory_mib: whole(s.memory_mib),
    disk_gib: whole(s.disk_gib),
    gpu_model: text(s.gpu_model),
    region: text(s.region),
    zone: text(s.zone),
    within: withins.find((w) => w === s.within),
    simulated: s.simulated === true || undefined,
  };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined));
}
