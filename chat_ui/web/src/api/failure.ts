/** Errors of API calls, classified into kinds for which the page has texts. */
import { asObject, asText, parseJson } from "./json";

export type FailureKind =
  | "unauthorized"
  | "forbidden"
  | "model-not-found"
  | "too-long"
  | "busy"
  | "limit"
  | "shared-limit"
  | "model-limit"
  | "over-limit"
  | "quota"
  | "credit"
  | "blocked"
  | "refused"
  | "server"
  | "network"
  | "cut"
  | "unreadable";

export interface Failure {
  readonly kind: FailureKind;
  /** The server's message; shown as text, never as HTML. Empty if there is none. */
  readonly detail: string;
  /** Seconds to wait before trying again, if the server gave them. */
  readonly retryAfter: number | null;
  /** The server's error code, more specific than the kind. Empty if there is none. */
  readonly code: string;
  /** The request field that is wrong. Empty if the error concerns none. */
  readonly param: string;
}

/** Exception that carries a `Failure`. */
export class ApiError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.detail || failure.kind);
    this.name = "ApiError";
  }
}

export function failureOf(kind: FailureKind, detail = "", retryAfter: number | null = null, code = "", param = ""): Failure {
  return { kind, detail, retryAfter, code, param };
}

const KIND_BY_CODE = new Map<string, FailureKind>([
  ["insufficient_quota", "quota"],
  ["budget_exhausted", "quota"],
  ["insufficient_credit", "credit"],
  ["content_policy_violation", "blocked"],
  ["context_length_exceeded", "too-long"],
  ["model_not_found", "model-not-found"],
  ["invalid_api_key", "unauthorized"],
  ["rate_limit_exceeded", "limit"],
  ["shared_rate_limit", "shared-limit"],
  ["model_rate_limit", "model-limit"],
  ["larger_than_limit", "over-limit"],
  ["overloaded", "busy"],
  ["unavailable", "busy"],
]);

const KIND_BY_STATUS = new Map<number, FailureKind>([
  [401, "unauthorized"],
  [403, "forbidden"],
  [404, "model-not-found"],
  [408, "busy"],
  [413, "too-long"],
  [429, "busy"],
  [503, "busy"],
]);

/** Returns the kind of an error response by its code, or else by its status. */
export function kindOf(status: number, code: string | null): FailureKind {
  const known = (code === null ? undefined : KIND_BY_CODE.get(code)) ?? KIND_BY_STATUS.get(status);
  return known ?? (status < 500 ? "refused" : "server");
}

/** Reads an error response, `{"error": {message, type, param, code}}`; other bodies give empty fields. */
export async function readFailure(response: Response): Promise<Failure> {
  const error = asObject(asObject(parseJson(await response.text()))?.["error"]);
  const code = asText(error?.["code"]);
  const wait = retryAfterSeconds(response.headers.get("retry-after"), Date.now());
  return failureOf(kindOf(response.status, code), asText(error?.["message"]) ?? "", wait, code ?? "", asText(error?.["param"]) ?? "");
}

/** Returns the seconds of a Retry-After header: a number of seconds or an HTTP date (RFC 9110, 10.2.3). */
export function retryAfterSeconds(header: string | null, now: number): number | null {
  if (header === null || header.trim() === "") return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, Math.ceil(seconds));
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}
