import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { inside } from "../../router";

type Parent = typeof inside;

export function rentRoutes(parent: Parent) {
  const route = <P extends string>(path: P, component: ReturnType<typeof lazyRouteComponent>) => createRoute({ getParentRoute: () => parent, path, component });
  return [route("/market", lazyRouteComponent(() => import("./Market"), "Market"))] as const;
}
