import type { Place } from "../nav";

export const accountNav: Place[] = [];
