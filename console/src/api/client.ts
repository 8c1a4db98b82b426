import createClient, { type Middleware } from "openapi-fetch";
import { session } from "../session";
import type { components, paths } from "./schema";

export type Schema = components["schemas"];
export type Problem = Schema["Problem"];

/** What the API answered instead of what was asked for (RFC 9457). */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title || problem.code);
    this.name = "ApiError";
  }
  get code() {
    return this.problem.code;
  }
  get status() {
    return this.problem.status ?? 0;
  }
  /** The field at fault, such as "body.name"; empty if none is. */
  get field() {
    return this.problem.location ?? this.problem.errors?.[0]?.location ?? "";
  }
}

/** No answer came: the server or the way to it is down. */
export class OfflineError extends Error {
  constructor(cause: unknown) {
    super("offline", { cause });
    this.name = "OfflineError";
  }
}

const middleware: Middleware = {
  onRequest({ request }) {
    const token = session.token();
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
  async onResponse({ request, response }) {
    if (response.ok) return;
    const problem = await problemOf(response);
    // The session is over: revoked, expired, or ended in another place.
    if (problem.code === "invalid_token" && request.headers.has("Authorization")) session.end();
    throw new ApiError(problem);
  },
  onError({ error }) {
    if (error instanceof DOMException && error.name === "AbortError") return error;
    return new OfflineError(error);
  },
};

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as Problem;
    return { ...body, status: response.status };
  } catch {
    return { type: "about:blank", code: "no_answer", status: response.status, detail: response.statusText };
  }
}

const client = createClient<paths>({ baseUrl: location.origin });
client.use(middleware);

/** The typed client of the API. Every failure is thrown: an ApiError, or an OfflineError. */
export const api = client;

/**
 * The header that makes a write safe to repeat. It is made when a person decides
 * to do something, not when the request is sent: pressing twice does it once.
 */
export const once = (key: string) => ({ "Idempotency-Key": key });
export const newKey = () => crypto.randomUUID();

/** The data of an answer; errors were thrown before. */
export async function data<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/** Fetches a file with the caller's credentials and hands it to the browser to keep. */
export async function download(path: string, name: string) {
  const token = session.token();
  let response: Response;
  try {
    response = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  } catch (error) {
    throw new OfflineError(error);
  }
  if (!response.ok) throw new ApiError(await problemOf(response));
  const url = URL.createObjectURL(await response.blob());
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  URL.revokeObjectURL(url);
}
