import type { inside } from "../../router";

type Parent = typeof inside;

export function hostRoutes(_parent: Parent) {
  return [] as const;
}
