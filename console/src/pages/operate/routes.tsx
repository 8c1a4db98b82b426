import type { inside } from "../../router";

type Parent = typeof inside;

export function operateRoutes(_parent: Parent) {
  return [] as const;
}
