import { describe, expect, it } from "vitest";
import { decodePayload } from "./events";

const chunk = (choice: object, more: object = {}): string =>
  JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, ...choice }], usage: null, ...more });

describe("decodePayload", () => {
  it("reads text, ending, usage and the end of the stream", () => {
    expect(decodePayload(chunk({ delta: { role: "assistant", content: "" }, finish_reason: null }))).toEqual([]);
    expect(decodePayload(chunk({ delta: { content: "Hi" } }))).toEqual([{ type: "text", text: "Hi" }]);
    expect(decodePayload(chunk({ delta: {}, finish_reason: "stop" }))).toEqual([{ type: "finished", reason: "stop" }]);
    expect(decodePayload('{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}')).toEqual([
      { type: "usage", usage: { promptTokens: 3, completionTokens: 0 } },
    ]);
    expect(decodePayload("[DONE]")).toEqual([{ type: "done" }]);
  });

  it("turns an in-band error into a failure, by its code", () => {
    const error = { message: "worker died", type: "server_error", param: null, code: null };
    expect(decodePayload(JSON.stringify({ error }))).toEqual([
      { type: "failed", failure: { kind: "server", detail: "worker died", retryAfter: null } },
    ]);
    const quota = JSON.stringify({ error: { ...error, code: "insufficient_quota" } });
    expect(decodePayload(quota)).toMatchObject([{ failure: { kind: "quota" } }]);
  });

  it.each(["", "{", "null", "[]", '"text"', "<script>"])("calls %j unreadable", (data) => {
    expect(decodePayload(data)).toMatchObject([{ type: "failed", failure: { kind: "unreadable" } }]);
  });

  it.each([
    '{"choices":[{"index":-1,"delta":{"content":"x"}}]}',
    '{"choices":[{"index":1,"delta":{"content":"x"}}]}',
    '{"choices":"x"}',
    '{"choices":[null]}',
    '{"choices":[{"index":0,"delta":{"content":{"html":"x"}}}]}',
    '{"usage":{"prompt_tokens":"3","completion_tokens":-1}}',
    '{"execute":"window.__pwned = 1"}',
  ])("lets nothing through from %s", (data) => {
    expect(decodePayload(data)).toEqual([]);
  });
});
