import { useQuery } from "@tanstack/react-query";
import { api, data, type Schema } from "../../api/client";

export type Host = Schema["Host"];
export type GPU = Schema["HostGPU"];

async function readAll(signal: AbortSignal): Promise<Host[]> {
  const all: Host[] = [];
  let cursor: string | undefined;
  do {
    const page = await data(api.GET("/v1/hosts", { params: { query: { cursor, limit: 200 } }, signal }));
    all.push(...(page.items ?? []));
    cursor = page.next_cursor || undefined;
  } while (cursor);
  return all;
}

/** Every host that one may read: one's own, or all of the cloud for an operator. */
export function useHosts(refetchInterval = 5_000) {
  return useQuery({
    queryKey: ["hosts"],
    queryFn: ({ signal }) => readAll(signal),
    // Thousands of hosts are not asked for as often as a few.
    refetchInterval: (q) => refetchInterval * (1 + Math.floor((q.state.data?.length ?? 0) / 200)),
  });
}

export function useHost(id: string) {
  return useQuery({
    queryKey: ["hosts", id],
    queryFn: ({ signal }) => data(api.GET("/v1/hosts/{host_id}", { params: { path: { host_id: id } }, signal })),
    refetchInterval: 3_000,
  });
}

export const gpusOf = (h: Host): GPU[] => h.gpus ?? [];

/** The models of a host's GPUs with how many there are of each, such as "8 × RTX 4090". */
export function modelsOf(h: Host): string {
  const counts = new Map<string, number>();
  for (const g of gpusOf(h)) counts.set(g.model, (counts.get(g.model) ?? 0) + 1);
  return [...counts].map(([model, n]) => `${n} × ${model}`).join(", ");
}

export const rentedGPUs = (h: Host) => h.total.gpus - h.free.gpus;

/** The temperature of the hottest GPU; undefined without one. */
export const hottest = (h: Host) => (gpusOf(h).length ? Math.max(...gpusOf(h).map((g) => g.temperature_c)) : undefined);

/** A GPU that is let to nobody until it was looked at. */
export const quarantined = (g: GPU) => g.health !== "healthy" || !g.present;

/** States in which something has to be done, and the others. */
export const needsCare = (state: Host["state"]) => ["refused", "awaited", "offline", "invalid", "not_ready", "untested", "degraded"].includes(state);

export function matches(h: Host, words: string): boolean {
  const text = `${h.name} ${h.id} ${h.account_id} ${h.region} ${h.zone} ${h.rack ?? ""} ${modelsOf(h)} ${h.state}`.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((w) => text.includes(w));
}

/** What a host's last self-test found; undefined before the first one ended. */
export const testOf = (h: Host) => (h.self_test?.checks?.length ? h.self_test : undefined);
