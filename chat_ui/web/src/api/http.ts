/**
 * Calls of the chat's API as the page makes them: with the session's cookies and the CSRF token, tried once more with
 * new cookies when the access cookie has run out. Knows the error body, and no operation.
 */
import { ApiError, failureOf, readFailure } from "./failure";
import { parseJson } from "./json";

export const API = "/api";
const REFRESH = "/session/refresh";
const SAFE = new Set(["GET", "HEAD"]);

export interface Request {
  readonly query?: Readonly<Record<string, string | number | boolean | null | undefined>>;
  readonly body?: unknown;
  /** A file of JSON, sent as it is instead of `body`. */
  readonly file?: Blob;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

type Listener = () => void;
const listeners = new Set<Listener>();
let refreshing: Promise<boolean> | null = null;

/** Hears of it when the session has ended, whichever call found that out. Returns how to stop hearing. */
export function onSignedOut(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The answer to a call; streams are read from its body. Throws `ApiError`, or what an abort throws. */
export async function request(method: string, path: string, options: Request = {}): Promise<Response> {
  let response = await send(method, path, options);
  if (response.status === 401 && path !== REFRESH && (await isLapsed(response)) && (await refresh())) {
    response = await send(method, path, options);
  }
  if (!response.ok) throw new ApiError(await readFailure(response));
  return response;
}

/** The JSON that a call answers with; `undefined` for one that says nothing. Throws `ApiError`. */
export async function json(method: string, path: string, options: Request = {}): Promise<unknown> {
  const response = await request(method, path, options);
  if (response.status === 204) return undefined;
  const value = parseJson(await response.text());
  if (value === null) throw new ApiError(failureOf("unreadable"));
  return value;
}

/**
 * New cookies for those of a session that is still good; false if it has ended. All who ask at once wait for the same
 * answer. Throws `ApiError` when the server can't say.
 */
export function refresh(): Promise<boolean> {
  refreshing ??= askForNewCookies().finally(() => (refreshing = null));
  return refreshing;
}

async function askForNewCookies(): Promise<boolean> {
  if (csrfToken() === "") return ended(); // its cookie lives as long as a session can
  const response = await send("POST", REFRESH, { body: {} });
  if (response.ok) return true;
  if (response.status !== 401 && response.status !== 403) throw new ApiError(await readFailure(response));
  return ended();
}

function ended(): false {
  for (const listener of listeners) listener();
  return false;
}

/** A 401 that new cookies may mend: a wrong password is one too, and they don't. */
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

/** `fetch` throws a TypeError for a network failure, and an AbortError that is the caller's own doing. */
function translate(error: unknown): never {
  throw error instanceof TypeError ? new ApiError(failureOf("network", "", null, "network")) : error;
}

function searchOf(query: Request["query"]): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (given.length === 0) return "";
  return "?" + new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
}

/** From the one cookie that scripts can read; over https it has the browser's prefix for cookies of this host only. */
export function csrfToken(): string {
  const cookies = new Map(document.cookie.split("; ").map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)]));
  return cookies.get("__Host-headrace-csrf") ?? cookies.get("headrace-csrf") ?? "";
}
