import { expect, it } from "vitest";
import { endpointOf } from "./batch_input";

it("finds the endpoint in the first line, not in the body of a request", async () => {
  const body = { messages: [{ content: [{ type: "image_url", image_url: { url: "https://example.org/v1/x" } }] }] };
  const line = JSON.stringify({ body, custom_id: "1", url: "/v1/chat/completions" });
  expect(await endpointOf(new Blob([`${line}\n${line.replace("chat/completions", "score")}\n`]))).toBe("/v1/chat/completions");
});

it.each(["", "no JSON", '{"url": "/v1/images/generations"}', '{"url": "https://example.org"}'])("finds none in %j", async (text) => {
  expect(await endpointOf(new Blob([text]))).toBe(null);
});
