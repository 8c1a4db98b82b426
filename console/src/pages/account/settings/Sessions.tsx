import { Badge, Button, Group, Paper, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { DataTable, type Columns } from "../../../ui/DataTable";
import { ErrorPanel } from "../../../ui/errors";
import { Time } from "../../../ui/format";
import { useRemoval } from "./useRemoval";

type Session = Schema["Session"];

/** Where one is signed in. */
export function Sessions() {
  const { t } = useTranslation();
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: ({ signal }) => data(api.GET("/v1/sessions", { signal })) });
  const removal = useRemoval("sessions", (id) => api.DELETE("/v1/sessions/{session_id}", { params: { path: { session_id: id } } }));
  const columns: Columns<Session> = [
    {
      id: "begun",
      header: t("session.begun"),
      accessorFn: (s) => s.created_at,
      cell: ({ row: { original: s } }) => (
        <Group gap={6} wrap="nowrap">
          <Time at={s.created_at} />
          {s.current && (
            <Badge variant="light" tt="none" style={{ flexShrink: 0 }}>
              {t("session.this")}
            </Badge>
          )}
        </Group>
      ),
    },
    { id: "ip", header: t("session.from"), cell: ({ row }) => row.original.ip ?? "–" },
    { id: "until", header: t("session.until"), cell: ({ row }) => <Time at={row.original.expires_at} relative /> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: s } }) =>
        s.current ? null : (
          <Button size="compact-sm" variant="default" loading={removal.pending === s.id} onClick={() => void removal.ask(s.id, { title: t("session.end"), text: t("session.end.text"), action: t("session.end") })}>
            {t("session.end")}
          </Button>
        ),
    },
  ];
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("session.title")}
      </Title>
      {sessions.error ? <ErrorPanel error={sessions.error} retry={() => void sessions.refetch()} /> : <DataTable label={t("session.title")} rows={sessions.data?.items ?? []} columns={columns} rowKey={(s) => s.id} loading={sessions.isPending} height={360} />}
    </Paper>
  );
}
