import { Center, Paper, SegmentedControl, Stack, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { languages, setLanguage, type Language } from "../../../i18n";

/** What is around a page that is seen before one is signed in. */
export function Frame({ title, children }: { title: string; children: ReactNode }) {
  const { t, i18n } = useTranslation();
  useEffect(() => {
    document.title = `${title} · suanli`;
  }, [title]);
  return (
    <Center mih="100dvh" p="md" component="main">
      <Paper withBorder p={{ base: "md", xs: "xl" }} w="100%" maw={420}>
        <Stack>
          <Center>
            <img src="/console/icon.svg" width={48} height={48} alt="" />
          </Center>
          <Title order={1} size="h3" ta="center">
            {title}
          </Title>
          {children}
          <SegmentedControl size="xs" aria-label={t("nav.language")} value={i18n.language} onChange={(v) => void setLanguage(v as Language)} data={Object.entries(languages).map(([value, label]) => ({ value, label }))} />
        </Stack>
      </Paper>
    </Center>
  );
}
