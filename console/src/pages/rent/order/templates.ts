import { useQuery } from "@tanstack/react-query";
import { api, data, type Schema } from "../../../api/client";

/** The templates that can be rented from; undefined until they are known. */
export function useTemplates(): Schema["Template"][] | undefined {
  const q = useQuery({ queryKey: ["templates"], queryFn: ({ signal }) => data(api.GET("/v1/templates", { signal })), staleTime: 300_000 });
  return q.data ? (q.data.items ?? []) : undefined;
}

const atLeast = (have: string | undefined, want: string | undefined) => !want || (!!have && have.localeCompare(want, "en", { numeric: true }) >= 0);

/** Whether an offer has what a template needs; the server decides in the end. */
export function fits(x: Schema["Template"], o: Schema["Offer"]): boolean {
  const n = x.needs;
  return (
    x.disk_gib <= o.max_disk_gib &&
    (n.gpus ?? 0) <= o.gpu_count &&
    // A card of 24 GB has a little less, as its driver tells it.
    (n.vram_gib ?? 0) * 1024 * 0.95 <= o.vram_mib &&
    (n.memory_gib ?? 0) * 1024 <= o.memory_mib &&
    atLeast(o.max_cuda, n.cuda) &&
    atLeast(o.driver, n.driver) &&
    atLeast(o.compute_capability, n.compute_capability)
  );
}
