import { Stack } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Page } from "../../ui/Page";
import { ApiKeys } from "./settings/ApiKeys";
import { SshKeys } from "./settings/SshKeys";

/** The keys of programs and of SSH. */
export function Keys() {
  const { t } = useTranslation();
  return (
    <Page title={t("keys.title")} about={t("keys.about")}>
      <Stack gap="xl">
        <SshKeys />
        <ApiKeys />
      </Stack>
    </Page>
  );
}
