/** Whether a volume is over for good. */
export const over = (state: string) => state === "deleted" || state === "lost";

export const colors: Record<string, string> = { creating: "blue", available: "green", deleting: "yellow", deleted: "gray", lost: "red" };
