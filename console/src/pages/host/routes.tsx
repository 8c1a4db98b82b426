import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { inside } from "../../router";

type Parent = typeof inside;

export function hostRoutes(parent: Parent) {
  const route = <P extends string>(path: P, component: ReturnType<typeof lazyRouteComponent>) => createRoute({ getParentRoute: () => parent, path, component });
  return [
    route("/hosts", lazyRouteComponent(() => import("./Hosts"), "Hosts")),
    route("/hosts/join", lazyRouteComponent(() => import("./Join"), "Join")),
    route("/hosts/$hostId", lazyRouteComponent(() => import("./Host"), "HostPage")),
    route("/earnings", lazyRouteComponent(() => import("./Earnings"), "Earnings")),
    route("/payouts", lazyRouteComponent(() => import("./Payouts"), "Payouts")),
  ] as const;
}
