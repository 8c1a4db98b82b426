import { useQuery } from "@tanstack/react-query";
import { api, data, type Schema } from "./api/client";

/** Who is signed in; undefined until it is known. */
export function useMe(): Schema["Me"] | undefined {
  return useQuery({ queryKey: ["me"], queryFn: ({ signal }) => data(api.GET("/v1/me", { signal })), staleTime: 60_000 }).data;
}

/** Whether who is signed in may do something. */
export const useMay = (action: string) => useMe()?.actions.includes(action) ?? false;
