import { Badge, Card, Group, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { ButtonLink } from "../../ui/ButtonLink";
import { Copy } from "../../ui/Copy";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Page } from "../../ui/Page";

/** What can be run without preparing anything. */
export function Templates() {
  const { t, i18n } = useTranslation();
  const zh = i18n.language === "zh-CN";
  const templates = useQuery({ queryKey: ["templates"], queryFn: ({ signal }) => data(api.GET("/v1/templates", { signal })), staleTime: 300_000 });
  const list = templates.data?.items ?? [];
  return (
    <Page title={t("templates.title")} about={t("templates.about")}>
      {templates.error ? (
        <ErrorPanel error={templates.error} retry={() => void templates.refetch()} />
      ) : templates.isPending ? (
        <Skeleton h={320} role="status" aria-label={t("loading")} />
      ) : list.length === 0 ? (
        <Empty title={t("templates.empty.title")} text={t("templates.empty.text")} />
      ) : (
        <SimpleGrid cols={{ base: 1, sm: 2, lg: 3, xl: 4 }}>
          {list.map((x) => (
            <Card key={x.name} withBorder component="article">
              <Stack gap="xs" h="100%">
                <Group justify="space-between">
                  <Title order={2} size="h4">
                    {(zh && x.title_zh) || x.title}
                  </Title>
                  <Badge variant="light" color="gray" tt="none">
                    {t(`scenario.${x.scenario}`, { defaultValue: x.scenario })}
                  </Badge>
                </Group>
                <Text size="sm" c="dimmed" flex={1}>
                  {(zh && x.description_zh) || x.description}
                </Text>
                <Copy text={x.image} />
                <Text size="xs" c="dimmed">
                  {[t("templates.disk", { size: x.disk_gib }), x.needs.vram_gib && t("templates.vram", { size: x.needs.vram_gib }), x.needs.cuda && `CUDA ≥ ${x.needs.cuda}`].filter(Boolean).join(" · ")}
                </Text>
                <ButtonLink to="/market" search={{ template: x.name }}>
                  {t("templates.choose")}
                </ButtonLink>
              </Stack>
            </Card>
          ))}
        </SimpleGrid>
      )}
    </Page>
  );
}
