import { Button, Group, NumberInput, Paper, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, newKey, once } from "../../../api/client";
import { useMay } from "../../../me";
import { ErrorPanel } from "../../../ui/errors";

/** Where money is paid in, if the cloud takes payments by itself. */
export function Pay({ currency }: { currency: string }) {
  const { t } = useTranslation();
  const may = useMay("billing:write");
  const queries = useQueryClient();
  const [amount, setAmount] = useState<number | string>(50);
  const [key, setKey] = useState(newKey);
  useEffect(() => setKey(newKey()), [amount]);
  const pay = useMutation({
    mutationFn: () => data(api.POST("/v1/payments", { params: { header: once(key) }, body: { amount: String(amount) } })),
    onSuccess: (p) => {
      void queries.invalidateQueries({ queryKey: ["payments"] });
      if (p.checkout_url && /^https?:\/\//i.test(p.checkout_url)) location.assign(p.checkout_url);
    },
  });
  const none = pay.error instanceof ApiError && pay.error.code === "payment_provider_unknown";
  if (!may) return null;
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("pay.title")}
      </Title>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          pay.mutate();
        }}
      >
        <Stack gap="sm">
          <Group align="flex-end">
            <NumberInput label={t("pay.amount", { currency })} min={1} decimalScale={2} value={amount} onChange={setAmount} flex={1} />
            <Button type="submit" disabled={amount === ""} loading={pay.isPending}>
              {t("pay.submit")}
            </Button>
          </Group>
          {none ? <Text size="sm">{t("pay.none")}</Text> : pay.error ? <ErrorPanel error={pay.error} /> : <Text size="xs" c="dimmed">{t("pay.help")}</Text>}
        </Stack>
      </form>
    </Paper>
  );
}
