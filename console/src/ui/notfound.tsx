import { Button, Stack, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

/** There is nothing at this address. */
export function NotFound() {
  const { t } = useTranslation();
  return (
    <Stack align="center" p="xl">
      <Title order={1}>{t("notfound.title")}</Title>
      <Text>{t("notfound.text")}</Text>
      <Button component={Link} to="/market">
        {t("notfound.home")}
      </Button>
    </Stack>
  );
}

/** The same where no frame of a page is around it. */
export function NotFoundPage() {
  return (
    <main>
      <NotFound />
    </main>
  );
}
