import { Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";

const Base = (props: ButtonProps & Omit<ComponentProps<"a">, keyof ButtonProps>) => <Button component="a" {...props} />;

/** A link to a page of the console that looks like a button. */
export const ButtonLink = createLink(Base);
