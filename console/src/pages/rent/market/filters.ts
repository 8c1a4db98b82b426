/** What the market is narrowed to; all of it is in the address. */
export type MarketSearch = {
  model?: string;
  count?: number;
  vram?: number; // GB of each GPU, at least
  zones?: string[];
  max?: string; // all-in, an hour
  reliability?: number; // per cent, at least
  nvlink?: boolean;
  real?: boolean; // no simulated ones
  plan?: MarketPlan;
  sort?: string;
  compare?: string[]; // offers side by side
  template?: string; // what is to run
};

export const plans = ["on_demand", "monthly", "spot"] as const;
export type MarketPlan = (typeof plans)[number];

export const sorts = ["price_per_hour", "gpu_price_per_hour", "-total_vram_gb", "-fp16_tflops", "-reliability_percent", "-net_down_mbps", "-disk_gib"];

/** How many offers stand side by side at most. */
export const compareMost = 4;

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);
const number = (v: unknown) => (Number.isSafeInteger(Number(v)) && Number(v) > 0 ? Number(v) : undefined);
const texts = (v: unknown) => (Array.isArray(v) ? v.filter((x): x is string => typeof x === "string") : undefined);
const decimal = (v: unknown) => (/^\d{1,9}(\.\d{1,6})?$/.test(String(v)) ? String(v) : undefined);

/** Reads the address; what does not belong there is left out. */
export function marketSearch(s: Record<string, unknown>): MarketSearch {
  const all: MarketSearch = {
    model: text(s.model),
    count: number(s.count),
    vram: number(s.vram),
    zones: texts(s.zones),
    max: decimal(s.max),
    reliability: number(s.reliability),
    nvlink: s.nvlink === true || undefined,
    real: s.real === true || undefined,
    plan: plans.find((p) => p === s.plan),
    sort: sorts.find((f) => f === s.sort),
    compare: texts(s.compare)?.slice(0, compareMost),
    template: text(s.template),
  };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined && !(Array.isArray(v) && v.length === 0)));
}

const quoted = (s: string) => `"${s.replace(/["\\]/g, "")}"`;

/** The filters as the market's expression; undefined if all offers match. */
export function expression(f: MarketSearch, more: string[] = []): string | undefined {
  const parts = [...more];
  if (f.model) parts.push(`gpu_model = ${quoted(f.model)}`);
  if (f.count) parts.push(`gpu_count = ${f.count}`);
  if (f.vram) parts.push(`vram_gb >= ${f.vram}`);
  if (f.zones?.length) parts.push(`zone in (${f.zones.map(quoted).join(", ")})`);
  if (f.max) parts.push(`price_per_hour <= ${f.max}`);
  if (f.reliability) parts.push(`reliability_percent >= ${f.reliability}`);
  if (f.nvlink) parts.push("nvlink");
  if (f.real) parts.push("not simulated");
  return parts.length ? parts.join(" and ") : undefined;
}

type Needs = { gpus?: number; vram_gib?: number; memory_gib?: number; cuda?: string; compute_capability?: string };

/** What a template needs, in the market's expression. */
export function needs(n: Needs | undefined): string[] {
  if (!n) return [];
  const parts: string[] = [];
  if (n.gpus) parts.push(`gpu_count >= ${n.gpus}`);
  if (n.vram_gib) parts.push(`vram_gb >= ${n.vram_gib}`);
  if (n.memory_gib) parts.push(`memory_gib >= ${n.memory_gib}`);
  if (n.cuda) parts.push(`max_cuda >= ${n.cuda}`);
  if (n.compute_capability) parts.push(`compute_capability >= ${n.compute_capability}`);
  return parts;
}
