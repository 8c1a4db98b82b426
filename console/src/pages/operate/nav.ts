import type { Place } from "../nav";

export const operateNav: Place[] = [];
