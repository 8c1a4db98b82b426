import { Stack } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Page } from "../../ui/Page";
import { Password } from "./settings/Password";
import { Passkeys } from "./settings/Passkeys";
import { Sessions } from "./settings/Sessions";
import { SecondFactor } from "./settings/SecondFactor";

/** How one signs in: password, second factor, and where one is signed in. */
export function Security() {
  const { t } = useTranslation();
  return (
    <Page title={t("security.title")} about={t("security.about")}>
      <Stack>
        <Password />
        <Passkeys />
        <SecondFactor />
        <Sessions />
      </Stack>
    </Page>
  );
}
