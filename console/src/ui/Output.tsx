import { Badge, Box, Button, Group, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiError, download, OfflineError, type Problem } from "../api/client";
import { session } from "../session";
import { ErrorPanel } from "./errors";

const lines = 5000;

// Writes what comes from an address until it is over or the signal aborts, and begins
// again where it broke.
async function write(path: string, terminal: Terminal, signal: AbortSignal, live: (on: boolean) => void) {
  let wait = 500;
  for (;;) {
    try {
      const response = await fetch(path, { headers: { Authorization: `Bearer ${session.token() ?? ""}` }, signal });
      if (!response.ok) {
        const error = new ApiError({ ...((await response.json()) as Problem), status: response.status });
        if (response.status < 500) throw error;
      } else if (response.body) {
        live(true);
        terminal.reset();
        wait = 500;
        const reader = response.body.getReader();
        for (;;) {
          const { value, done } = await reader.read();
          if (done) return;
          terminal.write(value);
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError) throw error;
    } finally {
      live(false);
    }
    await new Promise((done) => setTimeout(done, wait));
    if (signal.aborted) return;
    wait = Math.min(wait * 2, 15_000);
  }
}

type Props = {
  label: string;
  path: string; // of what is written, and goes on
  again?: unknown; // when this changes, it is read from its begin
  file: { path: string; name: string }; // of what is kept
  none?: { code: string; text: string }; // an error that is none
  height?: string;
};

/** What a program prints, as it comes. */
export function Output({ label, path, again, file, none, height = "max(300px, calc(100dvh - 380px))" }: Props) {
  const { t } = useTranslation();
  const place = useRef<HTMLDivElement>(null);
  const [live, setLive] = useState(false);
  const [error, setError] = useState<unknown>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    // What comes is a stranger's program's: links in it are shown, not followed.
    const terminal = new Terminal({ disableStdin: true, convertEol: true, scrollback: lines, fontSize: 13, screenReaderMode: true, cursorInactiveStyle: "none", linkHandler: { activate: () => undefined }, theme: { background: "#1a1b1e" } });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(place.current!);
    terminal.textarea?.setAttribute("aria-label", label);
    fit.fit();
    const sized = new ResizeObserver(() => fit.fit());
    sized.observe(place.current!);
    const stop = new AbortController();
    setError(undefined);
    write(path, terminal, stop.signal, (on) => !stop.signal.aborted && setLive(on)).catch(setError);
    return () => {
      stop.abort();
      sized.disconnect();
      terminal.dispose();
    };
  }, [path, again, attempt]); // eslint-disable-line react-hooks/exhaustive-deps
  const missing = none && error instanceof ApiError && error.code === none.code;
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Badge variant="light" color={live ? "green" : "gray"} tt="none">
          {t(live ? "logs.live" : "logs.still")}
        </Badge>
        <Button size="xs" variant="default" leftSection={<IconDownload size={14} />} onClick={() => download(file.path, file.name).catch(setError)}>
          {t("logs.download")}
        </Button>
      </Group>
      {missing ? <Text c="dimmed">{none.text}</Text> : error ? <ErrorPanel error={error instanceof Error ? error : new OfflineError(error)} retry={() => setAttempt(attempt + 1)} /> : null}
      <Box ref={place} h={height} p={8} bg="#1a1b1e" role="region" aria-label={label} style={{ borderRadius: "var(--mantine-radius-md)", overflow: "hidden" }} />
    </Stack>
  );
}
