import { useNavigate, useSearch } from "@tanstack/react-router";

/** A text that is part of the page's address, so that a link leads to what is seen. */
export function useUrlText(name: string, initial = ""): [string, (value: string) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const given = search[name];
  const value = given === undefined || given === null || typeof given === "object" ? initial : String(given);
  const set = (next: string) =>
    void navigate({
      to: ".",
      replace: true,
      search: ((before: Record<string, unknown>) => ({ ...before, [name]: next === initial ? undefined : next })) as never,
    });
  return [value, set];
}
