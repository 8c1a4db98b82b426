import { Alert, Button, Code, Group, Stack, Text, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";

/** The SSH keys that open what is rented, and a way to add one. */
export function Keys() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const keys = useQuery({ queryKey: ["ssh-keys"], queryFn: ({ signal }) => data(api.GET("/v1/ssh-keys", { params: { query: { limit: 200 } }, signal })) });
  const [adding, setAdding] = useState(false);
  const [line, setLine] = useState("");
  const add = useMutation({
    mutationFn: (key: string) => data(api.POST("/v1/ssh-keys", { params: { header: once(key) }, body: { public_key: line.trim() } })),
    onSuccess: () => {
      setLine("");
      setAdding(false);
      return queries.invalidateQueries({ queryKey: ["ssh-keys"] });
    },
  });
  const list = keys.data?.items ?? [];
  return (
    <Stack gap="xs">
      {list.length > 0 ? (
        <Text size="sm">
          {t("order.keys")} {list.slice(0, 3).map((k) => (
            <Code key={k.id} mr={4}>
              {k.name}
            </Code>
          ))}
          {list.length > 3 && `+${list.length - 3}`}
        </Text>
      ) : (
        keys.data && <Alert variant="light" title={t("order.no_key")}>{t("order.no_key.text")}</Alert>
      )}
      {adding || (keys.data && list.length === 0) ? (
        <Stack gap="xs">
          <Textarea label={t("order.public_key")} description={t("order.public_key.help")} placeholder="ssh-ed25519 AAAA…" autosize minRows={2} value={line} onChange={(e) => setLine(e.currentTarget.value)} styles={{ input: { fontFamily: "monospace" } }} />
          {add.error && <ErrorPanel error={add.error} />}
          <Group>
            <Button size="xs" variant="default" disabled={!line.trim()} loading={add.isPending} onClick={() => add.mutate(newKey())}>
              {t("order.add_key")}
            </Button>
          </Group>
        </Stack>
      ) : (
        <Group>
          <Button size="compact-xs" variant="subtle" onClick={() => setAdding(true)}>
            {t("order.add_key")}
          </Button>
        </Group>
      )}
    </Stack>
  );
}
