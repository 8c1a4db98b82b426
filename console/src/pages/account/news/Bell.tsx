import { ActionIcon, Anchor, Indicator, Popover, ScrollArea, Stack, Text, UnstyledButton } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications as toasts } from "@mantine/notifications";
import { IconBell } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../../api/client";
import { useEvents } from "../../../api/events";
import { Time } from "../../../ui/format";
import { placeOf, useNewsText, type News } from "./text";

/** The account's news in the header: how much is unread, and the newest of it. */
export function Bell() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const words = useNewsText();
  const [opened, list] = useDisclosure();
  const live = useEvents("/v1/notification-events", (e) => {
    if (e.event !== "notification") return;
    void queries.invalidateQueries({ queryKey: ["notifications"] });
    const { title, text } = words(e.data as News);
    toasts.show({ title, message: text });
  });
  const unread = useQuery({ queryKey: ["notifications", "count"], queryFn: ({ signal }) => data(api.GET("/v1/notifications/unread", { signal })), refetchInterval: live ? 120_000 : 15_000 }).data?.count ?? 0;
  const newest = useQuery({ queryKey: ["notifications", "newest"], queryFn: ({ signal }) => data(api.GET("/v1/notifications", { params: { query: { limit: 8 } }, signal })), enabled: opened });
  const open = (n: News) => {
    list.close();
    if (!n.read_at) void api.POST("/v1/notifications/{notification_id}/read", { params: { path: { notification_id: n.id } } }).then(() => queries.invalidateQueries({ queryKey: ["notifications"] }), () => undefined);
    void navigate(placeOf(n));
  };
  const items = newest.data?.items ?? [];
  return (
    <Popover opened={opened} onChange={(o) => !o && list.close()} position="bottom-end" width={340} withinPortal trapFocus>
      <Indicator label={unread > 99 ? "99+" : unread} disabled={unread === 0} size={16} color="red.8" zIndex={1}>
        <Popover.Target>
          <ActionIcon variant="default" size="lg" onClick={list.toggle} aria-label={unread ? t("news.bell_unread", { count: unread }) : t("nav.notifications")} aria-expanded={opened}>
            <IconBell size={16} />
          </ActionIcon>
        </Popover.Target>
      </Indicator>
      <Popover.Dropdown p="xs">
        <ScrollArea.Autosize mah={420}>
          <Stack gap={2}>
            {newest.data && items.length === 0 && (
              <Text size="sm" c="dimmed" p="xs">
                {t("news.empty.text")}
              </Text>
            )}
            {items.map((n) => {
              const { title, text } = words(n);
              return (
                <UnstyledButton key={n.id} p="xs" onClick={() => open(n)}>
                  <Text size="sm" fw={n.read_at ? 400 : 700}>
                    {title}
                  </Text>
                  <Text size="xs" lineClamp={2}>
                    {text}
                  </Text>
                  <Text size="xs" c="dimmed">
                    <Time at={n.at} relative />
                  </Text>
                </UnstyledButton>
              );
            })}
            <Anchor component={Link} to="/notifications" size="sm" p="xs" onClick={list.close}>
              {t("news.all")}
            </Anchor>
          </Stack>
        </ScrollArea.Autosize>
      </Popover.Dropdown>
    </Popover>
  );
}
