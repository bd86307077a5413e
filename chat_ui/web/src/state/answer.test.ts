import { expect, it } from "vitest";
import { failureOf } from "../api/failure";
import { Answer } from "./answer.svelte";

function answerAt(...times: number[]): Answer {
  return new Answer("m", () => times.shift() ?? 0);
}

it("collects text and computes speed from the first to the last text", () => {
  const answer = answerAt(1000, 1500, 3500);
  expect(answer.running).toBe(true);
  answer.apply({ type: "text", text: "a" });
  answer.apply({ type: "text", text: "b" });
  answer.apply({ type: "finished", reason: "stop" });
  answer.apply({ type: "usage", usage: { promptTokens: 5, completionTokens: 11 } });
  expect(answer.speed).toBeNull();
  answer.apply({ type: "done" });
  expect(answer).toMatchObject({ text: "ab", status: "finished", firstTextAfter: 500, speed: 5 });
});

it.each([
  [1, 2000],
  [9, 500],
])("knows no speed for %i tokens when the last text came at %i ms", (completionTokens, last) => {
  const answer = answerAt(0, 500, last);
  answer.apply({ type: "text", text: "a" });
  answer.apply({ type: "text", text: "b" });
  answer.apply({ type: "usage", usage: { promptTokens: 1, completionTokens } });
  answer.apply({ type: "done" });
  expect(answer.speed).toBeNull();
});

it("keeps its text when it fails, and is not stopped after its end", () => {
  const answer = answerAt(0, 1);
  answer.apply({ type: "text", text: "half" });
  answer.apply({ type: "failed", failure: failureOf("cut") });
  answer.stop();
  expect(answer).toMatchObject({ text: "half", status: "failed", failure: { kind: "cut" } });
});
