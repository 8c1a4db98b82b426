import { Anchor, type AnchorProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";

const Base = (props: AnchorProps & Omit<ComponentProps<"a">, keyof AnchorProps>) => <Anchor {...props} />;

/** A link to a page of the console within a text or a table. */
export const TextLink = createLink(Base);
