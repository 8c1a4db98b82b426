import { useQuery } from "@tanstack/react-query";
import { api, data, type Schema } from "../../../api/client";
import { useMay } from "../../../me";

/** The account's users, as far as they can be chosen from; empty until they are known. */
export function useUsers(): Schema["User"][] {
  const may = useMay("account:read");
  return useQuery({ queryKey: ["users", "all"], queryFn: ({ signal }) => data(api.GET("/v1/users", { params: { query: { limit: 200 } }, signal })), staleTime: 300_000, enabled: may }).data?.items ?? [];
}
