import { IconCash, IconCoins, IconServer2 } from "@tabler/icons-react";
import type { Place } from "../nav";

export const hostNav: Place[] = [
  { to: "/hosts", text: "nav.hosts", icon: IconServer2, action: "host:read", keys: "nav.hosts.keys" },
  { to: "/earnings", text: "nav.earnings", icon: IconCoins, action: "billing:read", keys: "nav.earnings.keys" },
  { to: "/payouts", text: "nav.payouts", icon: IconCash, action: "billing:read", keys: "nav.payouts.keys" },
];
