import { render } from "@testing-library/svelte";
import { expect, it } from "vitest";
import type { Message } from "../api/chat_types";
import AnswerFooter from "./AnswerFooter.svelte";
import { apiMessage } from "./messages.fixture";

function parts(changes: Partial<Message>): string[] {
  const { container } = render(AnswerFooter, { message: apiMessage({ text: "x", ...changes }) });
  return [...container.querySelectorAll("span")].map((span) => span.textContent ?? "");
}
const usage = { prompt_tokens: 1200, cached_tokens: 1000, completion_tokens: 21 };

it("shows usage, speed after the first token, and cost", () => {
  expect(parts({ usage, seconds: 3, first_token_seconds: 1, cost_nano: 2_500_000 })).toEqual([
    "1,200 in · 21 tokens out",
    "1,000 from cache",
    "10 tokens/s",
    "first after 1 s",
    "$0.0025",
  ]);
});

it("says how an answer ended early", () => {
  expect([parts({ state: "stopped" }), parts({ finish_reason: "length" })]).toEqual([["Stopped"], ["Ended at the token limit"]]);
});

it("shows nothing that is not known", () => {
  expect(parts({})).toEqual([]);
  const one = { prompt_tokens: 1, cached_tokens: 0, completion_tokens: 1 };
  expect(parts({ usage: one, seconds: 3, first_token_seconds: 1 })).not.toContain(expect.stringContaining("tokens/s"));
});

it("shows no speed of an answer that a search sent at once", () => {
  const step = { number: 0, kind: "search", name: "best_of_n", state: "done", data: {}, usage: [] } as const;
  expect(parts({ usage, seconds: 3, first_token_seconds: 1, steps: [step] })).toEqual([
    "1,200 in · 21 tokens out",
    "1,000 from cache",
    "first after 1 s",
  ]);
});

it.each([
  [{ generated: 1132, scored: 2000 }, "all attempts: 1,132 tokens written, 2,000 read by the verifier"],
  [{ generated: 77 }, "all attempts: 77 tokens written"],
])("shows the tokens of all paths of a search: %j", (data, shown) => {
  const step = { number: 0, kind: "search", name: "best_of_n", state: "done", data, usage: [] } as const;
  expect(parts({ usage, steps: [step] })).toEqual(["1,200 in · 21 tokens out", "1,000 from cache", shown]);
});
