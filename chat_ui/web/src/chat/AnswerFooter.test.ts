import { render } from "@testing-library/svelte";
import { expect, it } from "vitest";
import type { StreamEvent } from "../api/events";
import { answerOf } from "./answer_parts.fixture";
import AnswerFooter from "./AnswerFooter.svelte";

const TEXT: StreamEvent = { type: "text", text: "a" };

it("shows usage, speed and the wait, and why it ended early", () => {
  const usage = { promptTokens: 1200, completionTokens: 4 };
  const events: StreamEvent[] = [TEXT, TEXT, TEXT, { type: "finished", reason: "length" }, { type: "usage", usage }, { type: "done" }];
  const { container } = render(AnswerFooter, { answer: answerOf(...events) });
  expect(container.textContent?.trim()).toBe(
    "Ended at the token limit · 1,200 in · 4 tokens out · 1.5 tokens/s · first after 1 s",
  );
});

it("claims no tokens for a stopped answer", () => {
  const answer = answerOf(TEXT);
  answer.stop();
  const { container } = render(AnswerFooter, { answer });
  expect(container.textContent?.trim()).toBe("Stopped · first after 1 s");
});
