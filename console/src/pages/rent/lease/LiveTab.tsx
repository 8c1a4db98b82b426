import { Skeleton } from "@mantine/core";
import { lazy, Suspense, type ComponentType } from "react";

// What is in the folder is part of the page; what is not has no tab.
const files = import.meta.glob<Record<string, ComponentType<{ leaseId: string }>>>("../../lease-live/*.tsx");

const tabs = Object.fromEntries(
  ["Terminal", "Files", "Graphs"].flatMap((name) => {
    const load = files[`../../lease-live/${name}.tsx`];
    return load ? [[name.toLowerCase(), lazy(async () => ({ default: (await load())[name]! }))] as const] : [];
  }),
);

/** The tabs of what happens in a running lease. */
export const liveTabs = Object.keys(tabs);

export function LiveTab({ tab, leaseId }: { tab: string; leaseId: string }) {
  const Tab = tabs[tab];
  return Tab ? (
    <Suspense fallback={<Skeleton h={320} />}>
      <Tab leaseId={leaseId} />
    </Suspense>
  ) : null;
}
