import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCloudOff } from "@tabler/icons-react";
import { useQueryErrorResetBoundary } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { ApiError, OfflineError } from "../api/client";

/** What to tell a person about a failure. */
export function useErrorText() {
  const { t, i18n } = useTranslation();
  return (error: unknown): { title: string; text: string } => {
    if (error instanceof OfflineError) return { title: t("error.offline.title"), text: t("error.offline.text") };
    if (error instanceof ApiError) {
      const own = `error.${error.code}`;
      // The server's sentence says what was asked and found. It is English, so
      // readers of other languages get what the code means first.
      const title = i18n.exists(own) ? t(own) : t("error.refused");
      return { title, text: error.message };
    }
    return { title: t("error.unknown"), text: error instanceof Error ? error.message : String(error) };
  };
}

/** A failure in the place of what could not be shown, with a way on. */
export function ErrorPanel({ error, retry }: { error: unknown; retry?: () => void }) {
  const { t } = useTranslation();
  const { title, text } = useErrorText()(error);
  return (
    <Alert role="alert" color="red" variant="light" title={title} icon={error instanceof OfflineError ? <IconCloudOff /> : <IconAlertTriangle />}>
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{text}</Text>
        {retry && (
          <Button size="xs" variant="default" onClick={retry}>
            {t("action.retry")}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** What is in the place of a page that could not be shown. */
export function ErrorPage({ error, reset }: { error: unknown; reset?: () => void }) {
  const queries = useQueryErrorResetBoundary();
  return (
    <Group justify="center" p="xl">
      <ErrorPanel
        error={error}
        retry={() => {
          queries.reset();
          reset?.();
        }}
      />
    </Group>
  );
}

/** The same where no frame of a page is around it. */
export function WholeErrorPage(props: { error: unknown; reset?: () => void }) {
  return (
    <main>
      <ErrorPage {...props} />
    </main>
  );
}
