import { useQuery } from "@tanstack/react-query";
import { api, data } from "../../../api/client";

/** Whom the cloud is open to, and what a new account can try. */
export const useSignUpTerms = () => useQuery({ queryKey: ["sign-up"], queryFn: ({ signal }) => data(api.GET("/v1/sign-up", { signal })), staleTime: 300_000 });
