/**
 * Reads an answer's event stream to its end. The server generates the answer independently of the connection, so a
 * broken stream is resumed after the last event (`Last-Event-ID`), for as long as the page is open.
 */
import { EventSourceParserStream } from "eventsource-parser/stream";
import { decodeEvent, type AnswerEvent } from "./answer_events";
import { request } from "./http";
import { ApiError, type Failure } from "./failure";

/** Largest event in characters; the largest valid one is a whole answer. */
const MAX_EVENT_CHARS = 8_000_000;
/** Milliseconds before the first reconnection, doubled up to `MAX_DELAY_MS`. */
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;

export type Followed =
  | AnswerEvent
  /** The connection broke and will be retried. */
  | { readonly type: "lost" }
  /** The server refused the stream permanently. */
  | { readonly type: "refused"; readonly failure: Failure };

/**
 * Yields events until the answer has ended or is refused, then the conversation's new title if it comes on the same
 * connection. Throws only if `signal` aborts (`AbortError`).
 */
export async function* followAnswer(
  conversation: string,
  answer: string,
  signal: AbortSignal,
): AsyncGenerator<Followed, void, undefined> {
  const address = `/conversations/${encodeURIComponent(conversation)}/messages/${encodeURIComponent(answer)}/events`;
  let last = "";
  let pause = FIRST_DELAY_MS;
  let ended = false;
  for (;;) {
    try {
      for await (const message of open(address, last, signal)) {
        last = message.id ?? last;
        const event = decodeEvent(message.event, message.data);
        if (event === null) continue;
        pause = FIRST_DELAY_MS;
        ended ||= event.type === "ended";
        yield event;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!ended && error instanceof ApiError && isFinal(error.failure)) {
        yield { type: "refused", failure: error.failure };
        return;
      }
    }
    signal.throwIfAborted();
    if (ended) return;
    yield { type: "lost" };
    await wait(pause, signal);
    pause = Math.min(pause * 2, MAX_DELAY_MS);
  }
}

async function* open(address: string, last: string, signal: AbortSignal) {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (last !== "") headers["last-event-id"] = last;
  const response = await request("GET", address, { headers, signal });
  if (response.body === null) return;
  const events = response.body
    .pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: MAX_EVENT_CHARS }));
  const reader = events.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    await reader.cancel().catch(ignoreCancelOfBrokenBody);
  }
}

/** A body that failed rejects `cancel` with the error that `read` has already thrown to the caller. */
function ignoreCancelOfBrokenBody(): void {}

function isFinal(failure: Failure): boolean {
  return ["unauthorized", "forbidden", "model-not-found", "refused"].includes(failure.kind);
}

function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(signal.reason as Error);
      },
      { once: true },
    );
  });
}
