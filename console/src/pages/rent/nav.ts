import { IconCalendarDollar, IconChartLine, IconDatabase, IconLayoutGrid, IconServer2, IconShoppingCart, IconTopologyRing2 } from "@tabler/icons-react";
import type { Place } from "../nav";

export const rentNav: Place[] = [
  { to: "/market", text: "nav.market", icon: IconShoppingCart, keys: "nav.market.keys" },
  { to: "/templates", text: "nav.templates", icon: IconLayoutGrid, action: "market:read", keys: "nav.templates.keys" },
  { to: "/leases", text: "nav.leases", icon: IconServer2, action: "lease:read", keys: "nav.leases.keys" },
  { to: "/clusters", text: "nav.clusters", icon: IconTopologyRing2, action: "lease:read", keys: "nav.clusters.keys" },
  { to: "/volumes", text: "nav.volumes", icon: IconDatabase, action: "lease:read", keys: "nav.volumes.keys" },
  { to: "/spot", text: "nav.spot", icon: IconChartLine, action: "market:read", keys: "nav.spot.keys" },
  { to: "/reservations", text: "nav.reservations", icon: IconCalendarDollar, action: "lease:read", keys: "nav.reservations.keys" },
];
