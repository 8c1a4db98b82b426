import { Badge, Button, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { placeOf, useNewsText, type News } from "./news/text";

/** What happened to the account's money and leases. */
export function Notifications() {
  const { t } = useTranslation();
  const { unread } = useSearch({ strict: false }) as { unread?: boolean };
  const navigate = useNavigate();
  const queries = useQueryClient();
  const words = useNewsText();
  const news = usePages<News>(["notifications", "pages", unread ?? false], (cursor, signal) => data(api.GET("/v1/notifications", { params: { query: { cursor, limit: 100, ...(unread && { unread: true }) } }, signal })), { refetchInterval: 60_000 });
  const read = () => queries.invalidateQueries({ queryKey: ["notifications"] });
  const all = useMutation({ mutationFn: (until: string) => api.POST("/v1/notifications/read", { body: { until } }), onSuccess: read });
  const open = (n: News) => {
    if (!n.read_at) void api.POST("/v1/notifications/{notification_id}/read", { params: { path: { notification_id: n.id } } }).then(read, () => undefined);
    void navigate(placeOf(n));
  };
  const columns: Columns<News> = [
    { id: "at", header: t("audit.at"), cell: ({ row }) => <span style={{ whiteSpace: "nowrap" }}><Time at={row.original.at} relative /></span> },
    {
      id: "what",
      header: t("news.what"),
      cell: ({ row: { original: n } }) => {
        const { title, text } = words(n);
        return (
          <Stack gap={0} maw={720}>
            <Text size="sm" fw={n.read_at ? 400 : 700}>
              {title}
            </Text>
            <Text size="xs" c="dimmed" truncate>
              {text}
            </Text>
          </Stack>
        );
      },
    },
    { id: "read", header: t("lease.state"), cell: ({ row }) => (row.original.read_at ? null : <Badge variant="light" tt="none">{t("news.new")}</Badge>) },
  ];
  return (
    <Page
      title={t("nav.notifications")}
      about={t("news.about")}
      actions={
        <>
          <SegmentedControl aria-label={t("news.which")} value={unread ? "unread" : "all"} onChange={(v) => void navigate({ to: "/notifications", search: v === "unread" ? { unread: true } : {} })} data={[{ value: "all", label: t("leases.all") }, { value: "unread", label: t("news.unread") }]} />
          <Button variant="default" disabled={!news.rows.some((n) => !n.read_at)} loading={all.isPending} onClick={() => all.mutate(news.rows[0]!.id)}>
            {t("news.read_all")}
          </Button>
        </>
      }
    >
      {news.error ?? all.error ? (
        <ErrorPanel error={news.error ?? all.error} retry={news.retry} />
      ) : !news.first && news.rows.length === 0 ? (
        <Empty title={t("news.empty.title")} text={t("news.empty.text")} />
      ) : (
        <DataTable label={t("nav.notifications")} rows={news.rows} columns={columns} rowKey={(n) => n.id} onOpen={open} more={news.more} loading={news.first || news.loading} />
      )}
    </Page>
  );
}
