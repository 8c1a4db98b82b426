import { useQueryClient } from "@tanstack/react-query";
import { useEvents } from "../../../api/events";
import { useMay } from "../../../me";

/** Reads leases again whenever one of them changes; returns whether changes come by themselves. */
export function useLeaseChanges(): boolean {
  const queries = useQueryClient();
  const may = useMay("lease:read");
  return useEvents(may ? "/v1/lease-events" : null, (e) => {
    if (e.event !== "lease") return;
    const id = (e.data as { lease_id?: string }).lease_id;
    void queries.invalidateQueries({ queryKey: ["leases"] });
    void queries.invalidateQueries({ queryKey: ["bids"] });
    void queries.invalidateQueries({ queryKey: ["clusters"] });
    void queries.invalidateQueries({ queryKey: ["cluster"] });
    void queries.invalidateQueries({ queryKey: ["balance"] });
    if (id) void queries.invalidateQueries({ queryKey: ["lease", id] });
  });
}
