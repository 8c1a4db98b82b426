import { Alert, Button, Group, Modal, MultiSelect, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { Copy } from "../../../ui/Copy";
import { ErrorPanel } from "../../../ui/errors";
import { kinds } from "../news/text";

/** Where a webhook is added or changed. */
export function WebhookForm({ webhook, close }: { webhook?: Schema["Webhook"]; close: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [key] = useState(newKey);
  const [secret, setSecret] = useState("");
  const form = useForm({
    initialValues: { url: webhook?.url ?? "", description: webhook?.description ?? "", kinds: webhook?.kinds ?? ([] as string[]) },
    validate: { url: (v) => (/^https?:\/\/./i.test(v) ? null : t("webhook.bad_url")) },
  });
  const save = useMutation({
    mutationFn: async (v: typeof form.values) => {
      const body = { url: v.url.trim(), description: v.description.trim(), kinds: v.kinds };
      if (webhook) return void (await data(api.PATCH("/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: webhook.id } }, body })));
      setSecret((await data(api.POST("/v1/webhooks", { params: { header: once(key) }, body }))).secret);
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["webhooks"] });
      if (webhook) close();
    },
  });
  return (
    <Modal opened onClose={close} title={t(webhook ? "webhook.change" : "webhook.add")} closeOnClickOutside={!secret} closeButtonProps={{ "aria-label": t("action.close") }}>
      {secret ? (
        <Stack>
          <Alert variant="light" title={t("webhook.secret_once")}>
            <Copy text={secret} />
          </Alert>
          <Group justify="flex-end">
            <Button onClick={close}>{t("apikey.kept")}</Button>
          </Group>
        </Stack>
      ) : (
        <form onSubmit={form.onSubmit((v) => save.mutate(v))}>
          <Stack>
            <TextInput data-autofocus label="URL" placeholder="https://example.org/hook" required {...form.getInputProps("url")} />
            <TextInput label={t("webhook.description")} {...form.getInputProps("description")} />
            <MultiSelect label={t("webhook.kinds")} description={t("webhook.kinds.help")} data={kinds.map((k) => ({ value: k, label: t(`news.${k}`) }))} {...form.getInputProps("kinds")} />
            {save.error && <ErrorPanel error={save.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                {t("action.cancel")}
              </Button>
              <Button type="submit" loading={save.isPending}>
                {t(webhook ? "save" : "webhook.add")}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
