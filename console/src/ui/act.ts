import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useRef } from "react";
import { newKey } from "../api/client";
import { useErrorText } from "./errors";

type Options<R> = {
  done?: string; // what to say when it is done
  keys?: QueryKey[]; // what is to be read again then
  after?: (result: R) => void;
  quiet?: boolean; // failures are shown by who asked
};

/**
 * Does something that a person decided. The key that run is given stays the same
 * until it was done or something else is asked for: a second try is not a second
 * deed.
 */
export function useAct<V, R = unknown>(run: (what: V, key: string) => Promise<R>, { done, keys = [], after, quiet }: Options<R> = {}) {
  const queries = useQueryClient();
  const words = useErrorText();
  const decision = useRef({ what: "", key: "" });
  return useMutation({
    mutationFn: (what: V) => {
      const text = JSON.stringify(what) ?? "";
      if (!decision.current.key || decision.current.what !== text) decision.current = { what: text, key: newKey() };
      return run(what, decision.current.key);
    },
    onSuccess: (result) => {
      decision.current.key = "";
      if (done) notifications.show({ color: "green", message: done });
      after?.(result);
    },
    onError: (error) => {
      if (quiet) return;
      const { title, text } = words(error);
      notifications.show({ color: "red", title, message: text, autoClose: 15_000 });
    },
    // Also after a failure: what was sent may have been done.
    onSettled: () => Promise.all(keys.map((queryKey) => queries.invalidateQueries({ queryKey }))),
  });
}
