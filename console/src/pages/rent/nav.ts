import { IconShoppingCart } from "@tabler/icons-react";
import type { Place } from "../nav";

export const rentNav: Place[] = [{ to: "/market", text: "nav.market", icon: IconShoppingCart, keys: "nav.market.keys" }];
