/**
 * Sends requests to the chat API with the session's cookies and the CSRF token. When the access cookie has expired, it
 * is refreshed and the request is sent once more.
 */
import { ApiError, failureOf, readFailure } from "./failure";
import { parseJson } from "./json";

export const API = "/api";
const REFRESH = "/session/refresh";
const SAFE = new Set(["GET", "HEAD"]);

export interface Request {
  readonly query?: Readonly<Record<string, string | number | boolean | null | undefined>>;
  readonly body?: unknown;
  /** A JSON file that is sent unchanged instead of `body`. */
  readonly file?: Blob;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

type Listener = () => void;
const listeners = new Set<Listener>();
let refreshing: Promise<boolean> | null = null;

/** Calls `listener` when any request finds that the session has ended. Returns a function that removes it. */
export function onSignedOut(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns the response to a request. Throws `ApiError`, or `AbortError` if `signal` aborts. */
export async function request(method: string, path: string, options: Request = {}): Promise<Response> {
  let response = await send(method, path, options);
  if (response.status === 401 && path !== REFRESH && (await isLapsed(response)) && (await refresh())) {
    response = await send(method, path, options);
  }
  if (!response.ok) throw new ApiError(await readFailure(response));
  return response;
}

/** Returns the decoded JSON of a response; `undefined` for status 204. Throws `ApiError`. */
export async function json(method: string, path: string, options: Request = {}): Promise<unknown> {
  const response = await request(method, path, options);
  if (response.status === 204) return undefined;
  const value = parseJson(await response.text());
  if (value === null) throw new ApiError(failureOf("unreadable"));
  return value;
}

/**
 * Refreshes the session's cookies; returns false if the session has ended. Concurrent calls share one request.
 * Throws `ApiError` if the server fails.
 */
export function refresh(): Promise<boolean> {
  refreshing ??= askForNewCookies().finally(() => (refreshing = null));
  return refreshing;
}

async function askForNewCookies(): Promise<boolean> {
  if (csrfToken() === "") return ended(); // the CSRF cookie lives as long as a session can
  const response = await send("POST", REFRESH, { body: {} });
  if (response.ok) return true;
  if (response.status !== 401 && response.status !== 403) throw new ApiError(await readFailure(response));
  return ended();
}

function ended(): false {
  for (const listener of listeners) listener();
  return false;
}

/** Whether a 401 means an expired access cookie; a wrong password gives a 401 too. */
async function isLapsed(response: Response): Promise<boolean> {
  return (await readFailure(response.clone())).code === "not_signed_in";
}

async function send(method: string, path: string, { query, body, file, headers, signal }: Request): Promise<Response> {
  const changes = !SAFE.has(method);
  return await fetch(API + path + searchOf(query), {
    method,
    headers: { ...(changes ? { "content-type": "application/json", "x-csrf-token": csrfToken() } : {}), ...headers },
    ...(changes ? { body: file ?? JSON.stringify(body ?? {}) } : {}),
    ...(signal === undefined ? {} : { signal }),
    credentials: "same-origin",
    redirect: "error",
    cache: "no-store",
  }).catch(translate);
}

/** Rethrows an error of `fetch`: a TypeError means a network failure, an AbortError is passed on. */
function translate(error: unknown): never {
  throw error instanceof TypeError ? new ApiError(failureOf("network", "", null, "network")) : error;
}

function searchOf(query: Request["query"]): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (given.length === 0) return "";
  return "?" + new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
}

/** Returns the CSRF token from its cookie, whose name has the prefix `__Host-` over https. */
export function csrfToken(): string {
  const cookies = new Map(document.cookie.split("; ").map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)]));
  return cookies.get("__Host-headrace-csrf") ?? cookies.get("headrace-csrf") ?? "";
}
