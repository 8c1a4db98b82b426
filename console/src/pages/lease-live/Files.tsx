import { ActionIcon, Anchor, Box, Breadcrumbs, Button, FileButton, Group, Paper, Progress, Stack, Text, TextInput, Tooltip, UnstyledButton } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconDownload, IconFile, IconFolder, IconHome, IconLink, IconQuestionMark, IconRefresh, IconUpload } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type DragEvent } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data, download, OfflineError, type Problem, type Schema } from "../../api/client";
import { session } from "../../session";
import { confirm } from "../../ui/confirm";
import { DataTable, type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { ErrorPanel, useErrorText } from "../../ui/errors";
import { Time } from "../../ui/format";

type Entry = Schema["LeaseFile"];

const icons = { file: IconFile, folder: IconFolder, link: IconLink, other: IconQuestionMark };
const biggest = 256 * 2 ** 20; // as the API has it

/** The files of a running lease. Larger ones go by scp. */
export function Files({ leaseId }: { leaseId: string }) {
  const { t, i18n } = useTranslation();
  const queries = useQueryClient();
  const errorText = useErrorText();
  const [path, setPath] = useState(""); // empty: the home folder
  const [over, setOver] = useState(false);
  const [sending, setSending] = useState<{ name: string; part: number } | null>(null);
  const base = `/v1/leases/${encodeURIComponent(leaseId)}/files/content`;
  const key = ["lease-files", leaseId, path];
  const folder = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}/files", { params: { path: { lease_id: leaseId }, query: { path } }, signal })),
  });
  const here = folder.data?.path ?? path;
  const inside = (name: string) => `${here === "/" ? "" : here}/${name}`;
  const tell = (error: unknown) => {
    const { title, text } = errorText(error);
    notifications.show({ color: "red", title, message: text });
  };

  const fetchFile = (file: string) => download(`${base}?path=${encodeURIComponent(file)}`, plain(file.slice(file.lastIndexOf("/") + 1)));
  const open = async (entry: Entry) => {
    const file = inside(entry.name);
    try {
      if (entry.kind === "folder") setPath(file);
      else if (entry.kind === "file") await fetchFile(file);
      else if (entry.kind === "link") {
        // What it leads to is known in the instance only.
        const at = await api.GET("/v1/leases/{lease_id}/files", { params: { path: { lease_id: leaseId }, query: { path: file } } }).catch((error: unknown) => {
          if (error instanceof ApiError && error.code === "not_a_folder") return null;
          throw error;
        });
        if (at) setPath(file);
        else await fetchFile(file);
      }
    } catch (error) {
      tell(error);
    }
  };

  const store = async (files: File[]) => {
    for (const file of files) {
      try {
        if (file.size > biggest) throw new ApiError({ type: "about:blank", code: "file_too_large", status: 422, detail: t("live.files.too_large", { name: plain(file.name) }) });
        const put = (overwrite: boolean) =>
          upload(`${base}?path=${encodeURIComponent(inside(file.name))}&overwrite=${overwrite}`, file, (part) => setSending({ name: file.name, part }));
        setSending({ name: file.name, part: 0 });
        try {
          await put(false);
        } catch (error) {
          if (!(error instanceof ApiError) || error.code !== "file_exists") throw error;
          const yes = await confirm({ title: t("live.files.replace.title"), text: t("live.files.replace.text", { name: plain(file.name) }), action: t("live.files.replace.action"), danger: true });
          if (!yes) continue;
          await put(true);
        }
        notifications.show({ color: "green", message: t("live.files.stored", { name: plain(file.name) }) });
      } catch (error) {
        tell(error);
      } finally {
        setSending(null);
      }
    }
    void queries.invalidateQueries({ queryKey: key });
  };
  const drop = (e: DragEvent) => {
    e.preventDefault();
    setOver(false);
    void store([...e.dataTransfer.files]);
  };

  const size = (n: number) => {
    const [unit, by] = n >= 1e9 ? (["gigabyte", 1e9] as const) : n >= 1e6 ? (["megabyte", 1e6] as const) : n >= 1e3 ? (["kilobyte", 1e3] as const) : (["byte", 1] as const);
    return new Intl.NumberFormat(i18n.language, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 }).format(n / by);
  };
  const columns: Columns<Entry> = [
    {
      id: "name",
      header: t("live.files.name"),
      accessorFn: (f) => f.name,
      cell: ({ row: { original: f } }) => {
        const Icon = icons[f.kind as keyof typeof icons] ?? IconQuestionMark;
        return (
          <Group gap="xs" wrap="nowrap">
            <Icon size={16} aria-label={t(`live.files.kind.${f.kind}`)} role="img" />
            {f.kind === "other" ? (
              <bdi>{plain(f.name)}</bdi>
            ) : (
              <UnstyledButton fz="sm" onClick={() => void open(f)}>
                <bdi>{plain(f.name)}</bdi>
              </UnstyledButton>
            )}
          </Group>
        );
      },
    },
    { id: "size", header: t("live.files.size"), accessorFn: (f) => f.size_bytes, cell: ({ row: { original: f } }) => <span className="figure">{f.kind === "file" ? size(f.size_bytes) : "–"}</span> },
    { id: "modified", header: t("live.files.modified"), accessorFn: (f) => f.modified_at, cell: ({ row }) => <Time at={row.original.modified_at} /> },
    { id: "mode", header: t("live.files.mode"), cell: ({ row }) => <Text size="xs" ff="monospace">{row.original.mode}</Text> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: f } }) =>
        f.kind === "file" && (
          <Tooltip label={t("live.files.download")}>
            <ActionIcon variant="subtle" onClick={() => void open(f)} aria-label={t("live.files.download_of", { name: plain(f.name) })}>
              <IconDownload size={16} />
            </ActionIcon>
          </Tooltip>
        ),
    },
  ];

  const parts = here.split("/").filter(Boolean);
  return (
    <Stack gap="sm" onDragOver={(e) => (e.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)} onDrop={drop}>
      <Group justify="space-between" align="flex-end" gap="xs">
        <Stack gap={4}>
          <Breadcrumbs separatorMargin={4} aria-label={t("live.files.path")} style={{ flexWrap: "wrap" }}>
            <UnstyledButton miw={24} mih={24} c="dimmed" onClick={() => setPath("/")} aria-label={t("live.files.root")}>
              <IconHome size={16} style={{ verticalAlign: "middle" }} aria-hidden />
            </UnstyledButton>
            {parts.map((name, i) => (
              <UnstyledButton key={i} miw={24} mih={24} fz="sm" fw={i === parts.length - 1 ? 600 : 400} aria-current={i === parts.length - 1 ? "location" : undefined} onClick={() => setPath(`/${parts.slice(0, i + 1).join("/")}`)}>
                <bdi>{plain(name)}</bdi>
              </UnstyledButton>
            ))}
          </Breadcrumbs>
          <form
            onSubmit={(e) => {
              e.preventDefault();
              setPath(String(new FormData(e.currentTarget).get("path") ?? ""));
            }}
          >
            <TextInput key={here} name="path" size="xs" w={{ base: 220, sm: 320 }} defaultValue={here} aria-label={t("live.files.go")} ff="monospace" autoComplete="off" spellCheck={false} />
          </form>
        </Stack>
        <Group gap="xs">
          <Tooltip label={t("live.files.home")}>
            <ActionIcon variant="default" onClick={() => setPath("")} aria-label={t("live.files.home")}>
              <IconHome size={16} />
            </ActionIcon>
          </Tooltip>
          <Tooltip label={t("live.files.refresh")}>
            <ActionIcon variant="default" loading={folder.isFetching} onClick={() => void folder.refetch()} aria-label={t("live.files.refresh")}>
              <IconRefresh size={16} />
            </ActionIcon>
          </Tooltip>
          <FileButton multiple onChange={(files) => void store(files)} inputProps={{ "aria-label": t("live.files.upload") }}>
            {(props) => (
              <Button size="xs" leftSection={<IconUpload size={14} />} loading={!!sending} disabled={!folder.data} {...props}>
                {t("live.files.upload")}
              </Button>
            )}
          </FileButton>
        </Group>
      </Group>
      {sending && (
        <Paper withBorder p="xs">
          <Text size="sm">
            <bdi>{plain(sending.name)}</bdi>
          </Text>
          <Progress value={sending.part * 100} aria-label={t("live.files.sending", { name: plain(sending.name) })} />
        </Paper>
      )}
      <Box style={over ? { outline: "2px dashed var(--mantine-primary-color-filled)", outlineOffset: 4 } : undefined}>
        {folder.error ? (
          <Stack gap="xs">
            <ErrorPanel error={folder.error} retry={() => void folder.refetch()} />
            {path !== "" && (
              <Anchor component="button" size="sm" onClick={() => setPath("")}>
                {t("live.files.home")}
              </Anchor>
            )}
          </Stack>
        ) : folder.data && folder.data.items.length === 0 ? (
          <Empty title={t("live.files.empty.title")} text={t("live.files.empty.text")} />
        ) : (
          <DataTable label={t("live.files.title")} rows={folder.data?.items ?? []} columns={columns} rowKey={(f) => f.name} loading={folder.isPending} height="min(60dvh, 640px)" />
        )}
      </Box>
      <Text size="xs" c="dimmed">
        {t("live.files.about")}
      </Text>
    </Stack>
  );
}

/**
 * A name as it can be shown: what would change the direction of text, or is not
 * seen, is written out.
 */
export function plain(name: string): string {
  return name.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => `\\u${c.codePointAt(0)!.toString(16).padStart(4, "0")}`);
}

/** Sends a file with the caller's credentials; fetch would not say how far it is. */
function upload(address: string, file: File, progress: (part: number) => void): Promise<void> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("PUT", address);
    const token = session.token();
    if (token) request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (e) => e.lengthComputable && progress(e.loaded / e.total);
    request.onerror = () => fail(new OfflineError(null));
    request.onload = () => {
      if (request.status < 300) return done();
      let problem: Problem = { type: "about:blank", code: "no_answer", status: request.status, detail: request.statusText };
      try {
        problem = { ...(JSON.parse(request.responseText) as Problem), status: request.status };
      } catch {
        // Something between that speaks no JSON has answered.
      }
      fail(new ApiError(problem));
    };
    request.send(file);
  });
}
