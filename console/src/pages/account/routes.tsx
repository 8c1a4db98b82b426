import type { inside } from "../../router";

type Parent = typeof inside;

export function accountRoutes(_parent: Parent) {
  return [] as const;
}
