import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from "@tanstack/react-router";
import { accountRoutes } from "./pages/account/routes";
import { hostRoutes } from "./pages/host/routes";
import { liveRoutes } from "./pages/lease-live/routes";
import { operateRoutes } from "./pages/operate/routes";
import { rentRoutes } from "./pages/rent/routes";
import { session } from "./session";
import { ErrorPage, WholeErrorPage } from "./ui/errors";
import { NotFound, NotFoundPage } from "./ui/notfound";

export type Context = { queries: QueryClient };

export const root = createRootRouteWithContext<Context>()({ component: Outlet, notFoundComponent: NotFoundPage, errorComponent: WholeErrorPage });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: (s: Record<string, unknown>): { next?: string } => (typeof s.next === "string" ? { next: s.next } : {}),
  component: lazyRouteComponent(() => import("./pages/account/SignIn"), "SignIn"),
});

const signUp = createRoute({
  getParentRoute: () => root,
  path: "/sign-up",
  component: lazyRouteComponent(() => import("./pages/account/SignUp"), "SignUp"),
});

/** What only somebody who is signed in sees. */
export const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  beforeLoad: ({ location }) => {
    if (!session.token()) throw redirect({ to: "/sign-in", search: location.href === "/" ? {} : { next: location.href } });
  },
  component: lazyRouteComponent(() => import("./layout/Shell"), "Shell"),
  errorComponent: WholeErrorPage,
});

const home = createRoute({
  getParentRoute: () => inside,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/market" });
  },
});

export function makeRouter(queries: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([signIn, signUp, inside.addChildren([home, ...rentRoutes(inside), ...liveRoutes(inside), ...hostRoutes(inside), ...operateRoutes(inside), ...accountRoutes(inside)])]),
    basepath: "/console",
    context: { queries },
    defaultPreload: "intent",
    scrollRestoration: true,
    defaultErrorComponent: ErrorPage,
    defaultNotFoundComponent: NotFound,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
