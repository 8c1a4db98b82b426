import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { inside } from "../../router";
import { moneySearch } from "./money/search";

type Parent = typeof inside;

export function accountRoutes(parent: Parent) {
  const getParentRoute = () => parent;
  return [
    createRoute({ getParentRoute, path: "/money", validateSearch: moneySearch, component: lazyRouteComponent(() => import("./Money"), "Money") }),
    createRoute({ getParentRoute, path: "/availability", component: lazyRouteComponent(() => import("./Availability"), "Availability") }),
    createRoute({ getParentRoute, path: "/notifications", validateSearch: (s: Record<string, unknown>): { unread?: boolean } => (s.unread === true ? { unread: true } : {}), component: lazyRouteComponent(() => import("./Notifications"), "Notifications") }),
    createRoute({ getParentRoute, path: "/account/profile", component: lazyRouteComponent(() => import("./Profile"), "Profile") }),
    createRoute({ getParentRoute, path: "/account/security", component: lazyRouteComponent(() => import("./Security"), "Security") }),
    createRoute({ getParentRoute, path: "/account/keys", component: lazyRouteComponent(() => import("./Keys"), "Keys") }),
    createRoute({ getParentRoute, path: "/account/team", component: lazyRouteComponent(() => import("./Team"), "Team") }),
    createRoute({ getParentRoute, path: "/account/webhooks", component: lazyRouteComponent(() => import("./Webhooks"), "Webhooks") }),
    createRoute({ getParentRoute, path: "/account/webhooks/$webhookId", component: lazyRouteComponent(() => import("./Webhook"), "Webhook") }),
    createRoute({ getParentRoute, path: "/account/audit", component: lazyRouteComponent(() => import("./Audit"), "Audit") }),
  ] as const;
}
