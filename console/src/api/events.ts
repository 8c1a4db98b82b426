import { EventSourceParserStream } from "eventsource-parser/stream";
import { useEffect, useRef, useState } from "react";
import { session } from "../session";
import { ApiError, type Problem } from "./client";

export type Event = { id?: string; event?: string; data: unknown };

/**
 * Follows a stream of Server-Sent Events until the signal aborts: where it breaks
 * it goes on after the last event that came. EventSource is not used because it
 * sends no credentials but cookies.
 */
export async function follow(path: string, signal: AbortSignal, on: (e: Event) => void, state?: (live: boolean) => void) {
  let last = "";
  let wait = 500;
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      const token = session.token();
      if (token) headers.Authorization = `Bearer ${token}`;
      if (last) headers["Last-Event-ID"] = last;
      const response = await fetch(path, { headers, signal });
      if (response.status === 401 || response.status === 403 || response.status === 404) {
        throw new ApiError((await response.json()) as Problem);
      }
      if (!response.ok || !response.body) throw new Error(response.statusText);
      state?.(true);
      wait = 500;
      const events = response.body
        .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
        .pipeThrough(new EventSourceParserStream());
      const reader = events.getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        if (value.id) last = value.id;
        on({ id: value.id, event: value.event, data: JSON.parse(value.data) as unknown });
      }
    } catch (error) {
      if (signal.aborted || error instanceof ApiError) {
        state?.(false);
        return;
      }
    }
    state?.(false);
    await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random())));
    wait = Math.min(wait * 2, 15_000);
  }
}

/** Follows a stream while a component is there; returns whether it is connected. */
export function useEvents(path: string | null, on: (e: Event) => void): boolean {
  const [live, setLive] = useState(false);
  const latest = useRef(on);
  latest.current = on;
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    void follow(path, stop.signal, (e) => latest.current(e), setLive);
    return () => stop.abort();
  }, [path]);
  return live;
}
