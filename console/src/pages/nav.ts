
import type { ComponentType } from "react";
import { accountNav } from "./account/nav";
import { hostNav } from "./host/nav";
import { operateNav } from "./operate/nav";
import { rentNav } from "./rent/nav";

/** A place that the menu and the command palette lead to. */
export type Place = {
  to: string;
  text: string; // key of its name
  icon: ComponentType<{ size?: number | string }>;
  action?: string; // what one must be allowed to do to see it
  keys?: string; // key of other words that people look for it by
};

export const areas: { text: string; places: Place[] }[] = [
  { text: "nav.rent", places: rentNav },
  { text: "nav.host", places: hostNav },
  { text: "nav.operate", places: operateNav },
  { text: "nav.account", places: accountNav },
];
