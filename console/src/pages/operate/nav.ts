import { IconBook2, IconBuildingBank, IconChartDots3, IconCreditCard, IconDoor, IconGauge, IconMailPlus, IconPercentage, IconScale, IconServerCog, IconShieldCheck, IconTags, IconTarget, IconTicket, IconTornado, IconUsersGroup } from "@tabler/icons-react";
import type { Place } from "../nav";

const action = "operate";

export const operateNav: Place[] = [
  { to: "/operate/overview", text: "nav.op.overview", icon: IconGauge, action, keys: "nav.op.overview.keys" },
  { to: "/operate/fleet", text: "nav.op.fleet", icon: IconServerCog, action, keys: "nav.op.fleet.keys" },
  { to: "/operate/placement", text: "nav.op.placement", icon: IconTarget, action, keys: "nav.op.placement.keys" },
  { to: "/operate/drills", text: "nav.op.drills", icon: IconTornado, action, keys: "nav.op.drills.keys" },
  { to: "/operate/accounts", text: "nav.op.accounts", icon: IconUsersGroup, action, keys: "nav.op.accounts.keys" },
  { to: "/operate/invitations", text: "nav.op.invite", icon: IconMailPlus, action, keys: "nav.op.invite.keys" },
  { to: "/operate/payments", text: "nav.op.payments", icon: IconCreditCard, action, keys: "nav.op.payments.keys" },
  { to: "/operate/price-lists", text: "nav.op.prices", icon: IconTags, action, keys: "nav.op.prices.keys" },
  { to: "/operate/volume-discounts", text: "nav.op.discounts", icon: IconPercentage, action, keys: "nav.op.discounts.keys" },
  { to: "/operate/coupons", text: "nav.op.coupons", icon: IconTicket, action },
  { to: "/operate/payouts", text: "nav.op.payouts", icon: IconBuildingBank, action, keys: "nav.op.payouts.keys" },
  { to: "/operate/sla", text: "nav.op.sla", icon: IconShieldCheck, action, keys: "nav.op.sla.keys" },
  { to: "/operate/ledger", text: "nav.op.ledger", icon: IconScale, action, keys: "nav.op.ledger.keys" },
  { to: "/operate/catalog", text: "nav.op.catalog", icon: IconBook2, action, keys: "nav.op.catalog.keys" },
  { to: "/operate/gateways", text: "nav.op.gateways", icon: IconDoor, action },
  { to: "/operate/demand", text: "nav.op.demand", icon: IconChartDots3, action, keys: "nav.op.demand.keys" },
];
