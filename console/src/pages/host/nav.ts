import type { Place } from "../nav";

export const hostNav: Place[] = [];
