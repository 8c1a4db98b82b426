import { Outlet } from "@tanstack/react-router";
import { useMe } from "../../me";
import { NotFound } from "../../ui/notfound";

/** What is around an operator's pages: nobody else sees that there are any. */
export function Operators() {
  const me = useMe();
  if (!me) return null;
  return me.actions.includes("operate") ? <Outlet /> : <NotFound />;
}
