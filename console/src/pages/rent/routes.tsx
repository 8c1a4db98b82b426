import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { inside } from "../../router";
import { clusterSearch } from "./clusters/search";
import { leaseSearch } from "./lease/search";
import { marketSearch } from "./market/filters";
import { orderSearch } from "./order/search";
import { reserveSearch } from "./reserve/search";
import { spotSearch } from "./spot/search";

type Parent = typeof inside;

export function rentRoutes(parent: Parent) {
  const getParentRoute = () => parent;
  return [
    createRoute({ getParentRoute, path: "/market", validateSearch: marketSearch, component: lazyRouteComponent(() => import("./Market"), "Market") }),
    createRoute({ getParentRoute, path: "/rent/$offerId", validateSearch: orderSearch, component: lazyRouteComponent(() => import("./Rent"), "Rent") }),
    createRoute({ getParentRoute, path: "/templates", component: lazyRouteComponent(() => import("./Templates"), "Templates") }),
    createRoute({ getParentRoute, path: "/leases", validateSearch: (s: Record<string, unknown>): { over?: boolean } => (s.over === true ? { over: true } : {}), component: lazyRouteComponent(() => import("./Leases"), "Leases") }),
    createRoute({ getParentRoute, path: "/leases/$leaseId", validateSearch: leaseSearch, component: lazyRouteComponent(() => import("./Lease"), "Lease") }),
    createRoute({ getParentRoute, path: "/spot", validateSearch: spotSearch, component: lazyRouteComponent(() => import("./Spot"), "Spot") }),
    createRoute({ getParentRoute, path: "/reservations", validateSearch: (s: Record<string, unknown>): { over?: boolean } => (s.over === true ? { over: true } : {}), component: lazyRouteComponent(() => import("./Reservations"), "Reservations") }),
    createRoute({ getParentRoute, path: "/reservations/$reservationId", component: lazyRouteComponent(() => import("./Reservation"), "Reservation") }),
    createRoute({ getParentRoute, path: "/clusters", validateSearch: (s: Record<string, unknown>): { over?: boolean } => (s.over === true ? { over: true } : {}), component: lazyRouteComponent(() => import("./Clusters"), "Clusters") }),
    createRoute({ getParentRoute, path: "/clusters/$clusterId", validateSearch: (s: Record<string, unknown>): { run?: string } => (typeof s.run === "string" ? { run: s.run } : {}), component: lazyRouteComponent(() => import("./Cluster"), "Cluster") }),
    createRoute({ getParentRoute, path: "/volumes", validateSearch: (s: Record<string, unknown>): { over?: boolean } => (s.over === true ? { over: true } : {}), component: lazyRouteComponent(() => import("./Volumes"), "Volumes") }),
    createRoute({ getParentRoute, path: "/volumes/$volumeId", component: lazyRouteComponent(() => import("./Volume"), "Volume") }),
    createRoute({ getParentRoute, path: "/new-cluster", validateSearch: clusterSearch, component: lazyRouteComponent(() => import("./NewCluster"), "NewCluster") }),
    createRoute({ getParentRoute, path: "/reserve", validateSearch: reserveSearch, component: lazyRouteComponent(() => import("./Reserve"), "Reserve") }),
  ] as const;
}
