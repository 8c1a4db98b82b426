import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { inside } from "../../router";

type Parent = typeof inside;

export function operateRoutes(parent: Parent) {
  // For everybody but operators there is nothing at these addresses.
  const operate = createRoute({ getParentRoute: () => parent, path: "/operate", component: lazyRouteComponent(() => import("./Operators"), "Operators") });
  const route = <P extends string>(path: P, component: ReturnType<typeof lazyRouteComponent>) => createRoute({ getParentRoute: () => operate, path, component });
  return [
    operate.addChildren([
      route("/overview", lazyRouteComponent(() => import("./Overview"), "Overview")),
      route("/fleet", lazyRouteComponent(() => import("./Fleet"), "Fleet")),
      route("/accounts", lazyRouteComponent(() => import("./Accounts"), "Accounts")),
      route("/accounts/$accountId", lazyRouteComponent(() => import("./AccountPage"), "AccountPage")),
      route("/payments", lazyRouteComponent(() => import("./Payments"), "Payments")),
      route("/payments/$paymentId", lazyRouteComponent(() => import("./PaymentPage"), "PaymentPage")),
      route("/coupons", lazyRouteComponent(() => import("./Coupons"), "Coupons")),
      route("/payouts", lazyRouteComponent(() => import("./AllPayouts"), "AllPayouts")),
      route("/sla", lazyRouteComponent(() => import("./Levels"), "Levels")),
      route("/ledger", lazyRouteComponent(() => import("./Ledger"), "Ledger")),
      route("/catalog", lazyRouteComponent(() => import("./Catalog"), "Catalog")),
      route("/gateways", lazyRouteComponent(() => import("./Gateways"), "Gateways")),
      route("/placement", lazyRouteComponent(() => import("./PlacementPage"), "PlacementPage")),
      route("/drills", lazyRouteComponent(() => import("./Drills"), "Drills")),
      route("/invitations", lazyRouteComponent(() => import("./Invitations"), "Invitations")),
      route("/price-lists", lazyRouteComponent(() => import("./PriceLists"), "PriceLists")),
      route("/volume-discounts", lazyRouteComponent(() => import("./Discounts"), "Discounts")),
      route("/demand", lazyRouteComponent(() => import("./Demand"), "Demand")),
    ]),
  ] as const;
}
