/**
 * The events of an answer's stream, decoded from server-sent events.
 * Only fields defined here pass; other data is dropped (docs/design/hostile-input.md#H102).
 */
import type { Message, Step } from "./chat_types";
import { asCount, asNumber, asObject, asText, parseJson, type Json } from "./json";

export type AnswerEvent =
  | { readonly type: "waiting"; readonly position: number | null; readonly seconds: number | null }
  | { readonly type: "text"; readonly at: number; readonly text: string }
  | { readonly type: "step"; readonly step: Step }
  | { readonly type: "restart" }
  | { readonly type: "ended"; readonly message: Message }
  | { readonly type: "title"; readonly title: string };

const STEP_STATES = ["running", "done", "failed"] as const;

/** Decodes a server-sent event by its name and data; null if it is unknown or invalid. */
export function decodeEvent(name: string | undefined, data: string): AnswerEvent | null {
  const body = asObject(parseJson(data));
  if (name === "restart") return { type: "restart" };
  if (body === null) return null;
  switch (name) {
    case "waiting":
      return { type: "waiting", position: asCount(body["position"]), seconds: asNumber(body["seconds"]) };
    case "text":
      return textEvent(body);
    case "step":
      return stepEvent(asObject(body["step"]));
    case "done":
    case "failed":
      return endOf(asObject(body["message"]));
    case "title":
      return { type: "title", title: asText(body["title"]) ?? "" };
    default:
      return null;
  }
}

function textEvent(body: Json): AnswerEvent | null {
  const at = asCount(body["at"]);
  const text = asText(body["text"]);
  return at === null || text === null ? null : { type: "text", at, text };
}

function stepEvent(step: Json | null): AnswerEvent | null {
  if (step === null) return null;
  const number = asCount(step["number"]);
  const [kind, name, data] = [asText(step["kind"]), asText(step["name"]), asObject(step["data"])];
  const state = STEP_STATES.find((each) => each === step["state"]);
  if (number === null || kind === null || name === null || data === null || state === undefined) return null;
  return { type: "step", step: { number, kind, name, state, data } };
}

function endOf(message: Json | null): AnswerEvent | null {
  if (message === null || asText(message["id"]) === null || asText(message["text"]) === null) return null;
  return { type: "ended", message: message as unknown as Message };
}
