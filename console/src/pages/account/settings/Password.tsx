import { Button, Group, Paper, PasswordInput, Stack, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";

export function Password() {
  const { t } = useTranslation();
  const form = useForm({
    initialValues: { current: "", password: "", again: "" },
    validate: { password: (v) => (v.length < 10 ? t("password.short") : null), again: (v, all) => (v !== all.password ? t("password.differ") : null) },
  });
  const change = useMutation({
    mutationFn: (v: typeof form.values) => api.POST("/v1/me/password", { body: { current_password: v.current, password: v.password } }),
    onSuccess: () => {
      form.reset();
      notifications.show({ message: t("password.done") });
    },
  });
  const eye = { visibilityToggleButtonProps: { "aria-label": t("signin.show_password") } };
  return (
    <Paper withBorder p="md" maw={560} component="section">
      <form onSubmit={form.onSubmit((v) => change.mutate(v))}>
        <Stack gap="sm">
          <Title order={2} size="h4">
            {t("password.title")}
          </Title>
          <PasswordInput label={t("password.current")} autoComplete="current-password" required {...eye} {...form.getInputProps("current")} />
          <PasswordInput label={t("password.new")} description={t("password.help")} autoComplete="new-password" required {...eye} {...form.getInputProps("password")} />
          <PasswordInput label={t("password.again")} autoComplete="new-password" required {...eye} {...form.getInputProps("again")} />
          {change.error && <ErrorPanel error={change.error} />}
          <Group>
            <Button type="submit" loading={change.isPending}>
              {t("password.submit")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Paper>
  );
}
