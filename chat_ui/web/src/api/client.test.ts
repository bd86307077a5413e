import { beforeEach, describe, expect, it, vi } from "vitest";
import { listModels, streamChat, type ChatRequest } from "./client";
import type { StreamEvent } from "./events";

const REQUEST: ChatRequest = { model: "m", messages: [{ role: "user", content: "hi" }] };
const fetcher = vi.fn<typeof fetch>();

beforeEach(() => {
  fetcher.mockReset();
  vi.stubGlobal("fetch", fetcher);
});

async function ask(signal = new AbortController().signal): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of streamChat("k", REQUEST, signal)) events.push(event);
  return events;
}

describe("listModels", () => {
  it("sends the key and takes the ids", async () => {
    fetcher.mockResolvedValue(Response.json({ object: "list", data: [{ id: "a/b" }, { id: 3 }, null] }));
    expect(await listModels("hr_live_x")).toEqual(["a/b"]);
    const [path, init] = fetcher.mock.calls[0] ?? [];
    expect(path).toBe("/v1/models");
    expect(init?.headers).toMatchObject({ authorization: "Bearer hr_live_x" });
    expect(init?.credentials).toBe("omit");
  });

  it("leaves out models that make embeddings", async () => {
    const data = [{ id: "writes", task: "generate" }, { id: "embeds", task: "embed" }, { id: "older" }];
    fetcher.mockResolvedValue(Response.json({ object: "list", data }));
    expect(await listModels("k")).toEqual(["writes", "older"]);
  });

  it("throws a typed failure", async () => {
    const error = { message: "no such key", type: "invalid_request_error", param: null, code: "invalid_api_key" };
    fetcher.mockResolvedValue(Response.json({ error }, { status: 401 }));
    await expect(listModels("k")).rejects.toMatchObject({ failure: { kind: "unauthorized", detail: "no such key" } });
    fetcher.mockResolvedValue(new Response("<html>"));
    await expect(listModels("k")).rejects.toMatchObject({ failure: { kind: "unreadable" } });
  });
});

describe("streamChat", () => {
  it("asks for a stream with usage", async () => {
    fetcher.mockResolvedValue(new Response("data: [DONE]\n\n"));
    expect(await ask()).toEqual([{ type: "done" }]);
    const body: unknown = JSON.parse(String(fetcher.mock.calls[0]?.[1]?.body));
    expect(body).toEqual({ ...REQUEST, stream: true, stream_options: { include_usage: true } });
  });

  it("says how long to wait", async () => {
    fetcher.mockResolvedValue(new Response("busy", { status: 503, headers: { "retry-after": "5" } }));
    expect(await ask()).toEqual([{ type: "failed", failure: { kind: "busy", detail: "", retryAfter: 5, code: "" } }]);
  });

  it("makes a network failure an event, before and in the stream", async () => {
    fetcher.mockRejectedValue(new TypeError("Failed to fetch"));
    expect(await ask()).toMatchObject([{ failure: { kind: "network" } }]);
    const body = new ReadableStream({ start: (controller) => controller.error(new TypeError("network error")) });
    fetcher.mockResolvedValue(new Response(body));
    expect(await ask()).toMatchObject([{ failure: { kind: "network" } }]);
  });

  it("throws only for an abort", async () => {
    const abort = new AbortController();
    abort.abort();
    fetcher.mockRejectedValue(new DOMException("aborted", "AbortError"));
    await expect(ask(abort.signal)).rejects.toThrow("aborted");
  });
});
