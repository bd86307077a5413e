/**
 * The two calls that the page makes: which models there are, and one answer as a stream of events.
 * Knows HTTP and the API's error body; knows neither the conversation nor the screen.
 */
import type { StreamEvent } from "./events";
import { ApiError, failureOf, readFailure } from "./failure";
import { asList, asObject, asText, parseJson } from "./json";
import { readEvents } from "./stream";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly temperature?: number;
  readonly top_p?: number;
  readonly max_completion_tokens?: number;
}

/** Names of the models that generate text. Throws `ApiError`. */
export async function listModels(key: string): Promise<string[]> {
  const response = await call("/v1/models", key, {});
  const body = asObject(parseJson(await response.text()));
  if (body === null || !Array.isArray(body["data"])) throw new ApiError(failureOf("unreadable"));
  return asList(body["data"])
    .map(asObject)
    .filter((model) => model?.["task"] !== "embed")
    .map((model) => asText(model?.["id"]))
    .filter((id) => id !== null);
}

/**
 * One answer. Every way it can fail is an event, so a caller has one place to look; only an abort throws (`AbortError`).
 * Aborting closes the connection, which cancels the job in the gateway.
 */
export async function* streamChat(key: string, request: ChatRequest, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  try {
    const response = await call("/v1/chat/completions", key, { method: "POST", body, signal });
    if (response.body === null) throw new ApiError(failureOf("unreadable"));
    yield* readEvents(response.body);
  } catch (error) {
    if (signal.aborted) throw error;
    yield { type: "failed", failure: error instanceof ApiError ? error.failure : failureOf("network") };
  }
}

async function call(path: string, key: string, init: RequestInit): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(path, { ...init, headers, credentials: "omit", redirect: "error" }).catch(translate);
  if (!response.ok) throw new ApiError(await readFailure(response));
  return response;
}

/** `fetch` throws a TypeError for a network failure, and an AbortError that is the caller's own doing. */
function translate(error: unknown): never {
  throw error instanceof TypeError ? new ApiError(failureOf("network")) : error;
}
