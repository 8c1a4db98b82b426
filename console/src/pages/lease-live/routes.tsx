import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { inside } from "../../router";

type Parent = typeof inside;

export type View = "terminal" | "graphs" | "files";
const views: unknown[] = ["terminal", "graphs", "files"];

export function liveRoutes(parent: Parent) {
  return [
    createRoute({
      getParentRoute: () => parent,
      path: "/live/$leaseId",
      validateSearch: (s: Record<string, unknown>): { view?: View } => (views.includes(s.view) ? { view: s.view as View } : {}),
      component: lazyRouteComponent(() => import("./Live"), "Live"),
    }),
  ] as const;
}
