/**
 * From the bytes of a response body to stream events. Knows SSE (by eventsource-parser) and where a stream must end:
 * the last event is always "done" or "failed", also when the connection is cut or the bytes make no sense.
 */
import { createParser } from "eventsource-parser";
import { decodePayload, type StreamEvent } from "./events";
import { failureOf } from "./failure";

/** Characters of one SSE event; a server that sends more in one event is not speaking our protocol. */
const LONGEST_EVENT = 1_000_000;

/** The events of one body. Leaving the loop early cancels the body; an abort or a lost connection throws. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const arrived: StreamEvent[] = [];
  const parser = payloadParser(arrived);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      parser.feed(done ? decoder.decode() : decoder.decode(value, { stream: true }));
      for (const event of arrived.splice(0)) {
        yield event;
        if (event.type === "done" || event.type === "failed") return;
      }
      if (done) break;
    }
    yield { type: "failed", failure: failureOf("cut") };
  } finally {
    await reader.cancel().catch(ignoreCancelOfBrokenBody);
  }
}

/** OpenAI's frames carry no `event:` line, so a named event is somebody else's and is dropped. */
function payloadParser(arrived: StreamEvent[]) {
  return createParser({
    maxBufferSize: LONGEST_EVENT,
    onEvent: ({ event, data }) => {
      if (event === undefined) arrived.push(...decodePayload(data));
    },
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") arrived.push({ type: "failed", failure: failureOf("unreadable") });
    },
  });
}

/** A body that failed rejects `cancel` with the error that `read` has already thrown to the caller. */
function ignoreCancelOfBrokenBody(): void {}
