/**
 * Everything that can arrive on an answer's stream, and how one SSE payload becomes it.
 * Only fields known here pass: whatever else a server sends is dropped (HOSTILE H102).
 */
import { failureOf, kindOf, type Failure } from "./failure";
import { asCount, asList, asObject, asText, parseJson, type Json } from "./json";

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export type StreamEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "finished"; readonly reason: string }
  | { readonly type: "usage"; readonly usage: Usage }
  | { readonly type: "failed"; readonly failure: Failure }
  | { readonly type: "done" };

/** The events in one `data:` payload of a chat completion stream, in order. */
export function decodePayload(data: string): StreamEvent[] {
  if (data === "[DONE]") return [{ type: "done" }];
  const chunk = asObject(parseJson(data));
  if (chunk === null) return [{ type: "failed", failure: failureOf("unreadable") }];
  const error = asObject(chunk["error"]);
  if (error !== null) return [{ type: "failed", failure: inBandFailure(error) }];
  return [...choiceEvents(chunk), ...usageEvents(chunk)];
}

function inBandFailure(error: Json): Failure {
  return failureOf(kindOf(500, asText(error["code"])), asText(error["message"]) ?? "");
}

function choiceEvents(chunk: Json): StreamEvent[] {
  const events: StreamEvent[] = [];
  const choice = asList(chunk["choices"]).map(asObject).find((candidate) => candidate?.["index"] === 0);
  const delta = asObject(choice?.["delta"]);
  const text = asText(delta?.["content"]) ?? asText(delta?.["refusal"]) ?? "";
  if (text !== "") events.push({ type: "text", text });
  const reason = asText(choice?.["finish_reason"]);
  if (reason !== null) events.push({ type: "finished", reason });
  return events;
}

function usageEvents(chunk: Json): StreamEvent[] {
  const usage = asObject(chunk["usage"]);
  const promptTokens = asCount(usage?.["prompt_tokens"]);
  const completionTokens = asCount(usage?.["completion_tokens"]);
  if (promptTokens === null || completionTokens === null) return [];
  return [{ type: "usage", usage: { promptTokens, completionTokens } }];
}
