import { IconBell, IconHeartRateMonitor, IconHistory, IconKey, IconShieldLock, IconUserCircle, IconUsers, IconWallet, IconWebhook } from "@tabler/icons-react";
import type { Place } from "../nav";

export const accountNav: Place[] = [
  { to: "/money", text: "nav.money", icon: IconWallet, action: "billing:read", keys: "nav.money.keys" },
  { to: "/availability", text: "nav.sla", icon: IconHeartRateMonitor, action: "billing:read", keys: "nav.sla.keys" },
  { to: "/notifications", text: "nav.notifications", icon: IconBell },
  { to: "/account/profile", text: "nav.profile", icon: IconUserCircle, action: "account:read" },
  { to: "/account/security", text: "nav.security", icon: IconShieldLock, action: "self:write", keys: "nav.security.keys" },
  { to: "/account/keys", text: "nav.keys", icon: IconKey, action: "account:read", keys: "nav.keys.keys" },
  { to: "/account/team", text: "nav.team", icon: IconUsers, action: "account:read", keys: "nav.team.keys" },
  { to: "/account/webhooks", text: "nav.webhooks", icon: IconWebhook, action: "account:read" },
  { to: "/account/audit", text: "nav.audit", icon: IconHistory, action: "account:read" },
];
