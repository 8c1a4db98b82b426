import { Paper, SimpleGrid, Skeleton, Text } from "@mantine/core";
import type { ReactNode } from "react";

/** A few facts, each with its name; what is not known yet has its place already. */
export function Facts({ facts, loading }: { facts: { name: string; value: ReactNode; long?: boolean }[]; loading?: boolean }) {
  return (
    <SimpleGrid component="dl" cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm" m={0}>
      {facts.map((f) => (
        <Paper key={f.name} withBorder p="sm">
          <Text component="dt" size="xs" c="dimmed">
            {f.name}
          </Text>
          <Text component="dd" m={0} fw={600} size={f.long ? "sm" : "md"} style={{ overflowWrap: "anywhere" }}>
            {loading ? <Skeleton height={22} width="70%" /> : f.value}
          </Text>
        </Paper>
      ))}
    </SimpleGrid>
  );
}
