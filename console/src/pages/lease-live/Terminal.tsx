import "@xterm/xterm/css/xterm.css";
import "./colours";
import "./terminal.css";
import { ActionIcon, Alert, Badge, Box, Button, Group, Kbd, Stack, Switch, Text, Tooltip, useComputedColorScheme } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { IconClipboard, IconCopy, IconRefresh } from "@tabler/icons-react";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Screen, type ITheme } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, type Problem } from "../../api/client";
import { session } from "../../session";
import { confirm } from "../../ui/confirm";
import { ErrorPanel } from "../../ui/errors";

type State =
  | { at: "connecting" | "open" }
  | { at: "lost" } // the way to the server is down; it is tried again
  | { at: "ended"; code: number } // the shell has ended
  | { at: "refused"; error: ApiError };

// Both have a contrast of at least 4.5 for each of the sixteen colours.
const light: ITheme = {
  background: "#ffffff", foreground: "#1a1b1e", cursor: "#0b7285", cursorAccent: "#ffffff", selectionBackground: "#bfe3ea",
  black: "#1a1b1e", red: "#b02525", green: "#1d6f2b", yellow: "#7a5200", blue: "#1558b0", magenta: "#862e9c", cyan: "#0b6472", white: "#5c5f66",
  brightBlack: "#5c5f66", brightRed: "#c92a2a", brightGreen: "#2b7a2f", brightYellow: "#8a5a00", brightBlue: "#1864ab", brightMagenta: "#9c36b5", brightCyan: "#0b7285", brightWhite: "#373a40",
};
const dark: ITheme = {
  background: "#141517", foreground: "#d8d9dc", cursor: "#3bb3c4", cursorAccent: "#141517", selectionBackground: "#1f4a52",
  black: "#8a8d94", red: "#ff8787", green: "#69db7c", yellow: "#ffd43b", blue: "#74c0fc", magenta: "#e599f7", cyan: "#66d9e8", white: "#e9ecef",
  brightBlack: "#9a9da3", brightRed: "#ffa8a8", brightGreen: "#8ce99a", brightYellow: "#ffe066", brightBlue: "#a5d8ff", brightMagenta: "#eebefa", brightCyan: "#99e9f2", brightWhite: "#f8f9fa",
};

const piece = 16 << 10; // bytes of what is typed or pasted that are sent at once
const retries = [500, 1_000, 2_000, 5_000, 10_000, 15_000]; // milliseconds

/** A shell in a running lease. */
export function Terminal({ leaseId, height = "min(60dvh, 640px)" }: { leaseId: string; height?: number | string }) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme("light");
  const [state, setState] = useState<State>({ at: "connecting" });
  const [selected, setSelected] = useState(false);
  const [reader, setReader] = useLocalStorage({ key: "suanli.terminal.reader", defaultValue: false });
  const [turn, setTurn] = useState(0); // one more opens a new shell
  const place = useRef<HTMLDivElement>(null);
  const tools = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | null>(null);
  const words = useRef(t);
  words.current = t;

  // The screen, which outlives connections.
  useEffect(() => {
    const s = new Screen({
      fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace',
      fontSize: 14,
      scrollback: 5_000,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
      // A program inside may print links with any text. Where one leads is shown
      // before it is opened, and only to the web.
      linkHandler: {
        allowNonHttpProtocols: false,
        activate: (_, address) =>
          void confirm({ title: words.current("live.terminal.link"), text: address, action: words.current("live.terminal.open_link") }).then((yes) => {
            if (yes) window.open(address, "_blank", "noopener,noreferrer");
          }),
      },
    });
    const fit = new FitAddon();
    s.loadAddon(fit);
    s.open(place.current!);
    s.textarea?.setAttribute("aria-label", words.current("live.terminal.label"));
    const resize = () => {
      try {
        fit.fit();
      } catch {
        // It is not in sight and has no size.
      }
    };
    const watch = new ResizeObserver(resize);
    watch.observe(place.current!);
    resize();
    s.onSelectionChange(() => setSelected(s.hasSelection()));
    s.attachCustomKeyEventHandler((e) => {
      if (e.type !== "keydown") return true;
      // The one key that a keyboard leaves the terminal by.
      if (e.key === "Escape" && e.shiftKey) {
        tools.current?.querySelector<HTMLElement>("button,input")?.focus();
        e.preventDefault();
        return false;
      }
      const control = e.ctrlKey || e.metaKey;
      if (control && e.key.toLowerCase() === "c" && !e.altKey && s.hasSelection()) {
        copy(s);
        e.preventDefault();
        return false;
      }
      // The browser pastes by these, if they are left to it.
      if (control && e.key.toLowerCase() === "v") return false;
      // And opens the command palette by this one, in its own place.
      if (control && e.key.toLowerCase() === "k") return !e.metaKey;
      return true;
    });
    screen.current = s;
    return () => {
      screen.current = null;
      watch.disconnect();
      s.dispose();
    };
  }, []);

  useEffect(() => {
    const s = screen.current;
    if (s) s.options.theme = scheme === "dark" ? dark : light;
  }, [scheme]);
  useEffect(() => {
    const s = screen.current;
    if (s) s.options.screenReaderMode = reader;
  }, [reader]);

  // The connections, one after the other.
  useEffect(() => {
    const s = screen.current;
    if (!s) return;
    const stop = new AbortController();
    let socket: WebSocket | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let tries = 0;
    let before = false; // there was a shell, which is gone
    const send = (data: string | Uint8Array<ArrayBuffer>) => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(data);
    };
    const encoder = new TextEncoder();
    const type = (bytes: Uint8Array<ArrayBuffer>) => {
      for (let i = 0; i < bytes.length; i += piece) send(bytes.slice(i, i + piece));
    };
    const listeners = [
      s.onData((text) => type(encoder.encode(text))),
      s.onBinary((text) => type(Uint8Array.from(text, (c) => c.charCodeAt(0)))),
      s.onResize(({ cols, rows }) => send(JSON.stringify({ type: "resize", columns: cols, rows }))),
    ];
    const again = () => {
      const wait = retries[Math.min(tries++, retries.length - 1)]! * (0.5 + Math.random());
      timer = setTimeout(connect, wait);
    };
    const back = () => {
      if (socket) return;
      clearTimeout(timer);
      tries = 0;
      connect();
    };
    window.addEventListener("online", back);

    // A browser does not say why a WebSocket was refused; the same address says it
    // to a plain request.
    const why = async (): Promise<ApiError | null> => {
      try {
        await api.GET("/v1/leases/{lease_id}/terminal", { params: { path: { lease_id: leaseId } }, signal: stop.signal, parseAs: "stream" });
      } catch (error) {
        if (error instanceof ApiError && error.code !== "websocket_needed" && error.status < 500) return error;
      }
      return null;
    };

    function connect() {
      const token = session.token();
      if (stop.signal.aborted || !token || !s) return;
      setState((now) => (now.at === "lost" ? now : { at: "connecting" }));
      const query = new URLSearchParams({ columns: String(s.cols), rows: String(s.rows), acknowledge: "true" });
      const address = `${location.origin.replace(/^http/, "ws")}/v1/leases/${encodeURIComponent(leaseId)}/terminal?${query}`;
      const mine = new WebSocket(address, ["suanli.terminal", `suanli.bearer.${token}`]);
      mine.binaryType = "arraybuffer";
      socket = mine;
      let last: State | null = null;
      mine.onmessage = (e: MessageEvent<ArrayBuffer | string>) => {
        if (typeof e.data !== "string") {
          const bytes = new Uint8Array(e.data);
          s.write(bytes, () => send(JSON.stringify({ type: "shown", bytes: bytes.length })));
          return;
        }
        const m = JSON.parse(e.data) as { type: string; exit_code?: number; problem?: Problem };
        if (m.type === "ready") {
          if (before) s.write(`\r\n\x1b[0m\x1b[7m ${words.current("live.terminal.new_shell")} \x1b[0m\r\n`);
          before = true;
          tries = 0;
          setState({ at: "open" });
          // It may have been resized meanwhile.
          send(JSON.stringify({ type: "resize", columns: s.cols, rows: s.rows }));
        } else if (m.type === "exit") {
          last = { at: "ended", code: m.exit_code ?? 0 };
        } else if (m.type === "problem" && m.problem) {
          const error = new ApiError(m.problem);
          if (error.code === "invalid_token") session.end();
          // What has to do with the way there may pass; the rest is for the person.
          if (error.status !== 503) last = { at: "refused", error };
        }
      };
      mine.onclose = () => {
        if (socket === mine) socket = null;
        if (stop.signal.aborted) return;
        if (last) {
          setState(last);
          return;
        }
        setState({ at: "lost" });
        void why().then((error) => {
          if (stop.signal.aborted) return;
          if (error) setState({ at: "refused", error });
          else again();
        });
      };
    }
    connect();
    s.focus();
    return () => {
      stop.abort();
      clearTimeout(timer);
      window.removeEventListener("online", back);
      listeners.forEach((l) => l.dispose());
      socket?.close();
    };
  }, [leaseId, turn]);

  const over = state.at === "ended" || state.at === "refused";
  const clipboard = window.isSecureContext;
  return (
    <Stack gap="xs">
      <Group ref={tools} justify="space-between" gap="xs">
        <Group gap="xs">
          <Badge variant="dot" tt="none" color={{ connecting: "gray", open: "green", lost: "yellow", ended: "gray", refused: "red" }[state.at]} role="status" data-state={state.at}>
            {state.at === "ended" ? t("live.terminal.ended", { code: state.code }) : t(`live.terminal.state.${state.at}`)}
          </Badge>
          {over && (
            <Button size="xs" variant="default" leftSection={<IconRefresh size={14} />} onClick={() => setTurn((n) => n + 1)}>
              {t("live.terminal.again")}
            </Button>
          )}
        </Group>
        <Group gap="xs">
          <Text size="xs" c="dimmed" visibleFrom="sm">
            <Kbd size="xs">Shift Esc</Kbd> {t("live.terminal.leave")}
          </Text>
          <Switch size="xs" label={t("live.terminal.reader")} checked={reader} onChange={(e) => setReader(e.currentTarget.checked)} />
          {clipboard && (
            <>
              <Tooltip label={t("live.terminal.copy")}>
                <ActionIcon variant="default" disabled={!selected} onClick={() => screen.current && copy(screen.current)} aria-label={t("live.terminal.copy")}>
                  <IconCopy size={16} />
                </ActionIcon>
              </Tooltip>
              <Tooltip label={t("live.terminal.paste")}>
                <ActionIcon
                  variant="default"
                  disabled={state.at !== "open"}
                  onClick={() =>
                    void navigator.clipboard.readText().then(
                      (text) => {
                        screen.current?.paste(text);
                        screen.current?.focus();
                      },
                      () => screen.current?.focus(), // the person said no
                    )
                  }
                  aria-label={t("live.terminal.paste")}
                >
                  <IconClipboard size={16} />
                </ActionIcon>
              </Tooltip>
            </>
          )}
        </Group>
      </Group>
      {state.at === "refused" && <ErrorPanel error={state.error} />}
      {state.at === "lost" && (
        <Alert color="yellow" variant="light" role="status">
          {t("live.terminal.lost")}
        </Alert>
      )}
      <Box ref={place} h={height} className="suanli-terminal" role="region" aria-label={t("live.terminal.label")} data-dimmed={over || undefined} />
    </Stack>
  );
}

function copy(s: Screen) {
  // Without TLS there is no clipboard to write to, but the browser's own command,
  // which the screen answers with what is selected.
  if (window.isSecureContext) void navigator.clipboard.writeText(s.getSelection()).catch(() => undefined);
  else document.execCommand("copy");
  s.clearSelection();
  s.focus();
}
