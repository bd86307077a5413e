import { describe, expect, it } from "vitest";
import type { StreamEvent } from "./events";
import { readEvents } from "./stream";

const encoder = new TextEncoder();
const frame = (text: string): string => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`;
const WHOLE = `: ping\n\n${frame("Zażółć ")}event: execute\ndata: alert(1)\n\n${frame("gęślą 🦔\n\n")}${frame("\r\n")}data: [DONE]\n\n`;

function bodyOf(...parts: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

async function collect(body: ReadableStream<Uint8Array>): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of readEvents(body)) events.push(event);
  return events;
}

const EXPECTED: StreamEvent[] = [
  { type: "text", text: "Zażółć " },
  { type: "text", text: "gęślą 🦔\n\n" },
  { type: "text", text: "\r\n" },
  { type: "done" },
];

describe("readEvents", () => {
  it.each(["\n", "\r\n"])("gives the same events at every split of the bytes, line ends %j", async (lineEnd) => {
    const bytes = encoder.encode(WHOLE.replaceAll("\n", lineEnd));
    for (let split = 0; split <= bytes.length; split++) {
      expect(await collect(bodyOf(bytes.slice(0, split), bytes.slice(split))), `split at ${split}`).toEqual(EXPECTED);
    }
  });

  it("gives the same events byte by byte", async () => {
    const bytes = [...encoder.encode(WHOLE)].map((byte) => Uint8Array.of(byte));
    expect(await collect(bodyOf(...bytes))).toEqual(EXPECTED);
  });

  it("says that a stream without [DONE] was cut, wherever it was cut", async () => {
    const bytes = encoder.encode(frame("a") + "data: [DONE]");
    for (let end = 0; end <= bytes.length; end++) {
      expect((await collect(bodyOf(bytes.slice(0, end)))).at(-1)).toMatchObject({ failure: { kind: "cut" } });
    }
  });

  it("ends at the first failure and cancels the body", async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(encoder.encode(`data: {"error":{"message":"no"}}\n\n${frame("more")}`)),
      cancel: () => {
        cancelled = true;
      },
    });
    expect(await collect(body)).toMatchObject([{ type: "failed", failure: { detail: "no" } }]);
    expect(cancelled).toBe(true);
  });

  it("gives up on an event without end", async () => {
    const flood = encoder.encode("x".repeat(600_000));
    const events = await collect(bodyOf(encoder.encode("data: "), flood, flood));
    expect(events).toMatchObject([{ type: "failed", failure: { kind: "unreadable" } }]);
  });

  it("throws what a broken connection throws", async () => {
    const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.error(new TypeError("lost")) });
    await expect(collect(body)).rejects.toThrow("lost");
  });
});
