import { expect, it } from "vitest";
import { chatMessage, apiMessage } from "../chat/messages.fixture";

const waiting = () => chatMessage({ state: "waiting", text: "" });

it("applies waiting, text and end events", () => {
  const answer = waiting();
  answer.apply({ type: "waiting", position: 2, seconds: 3 });
  expect([answer.running, answer.queue]).toEqual([true, { position: 2, seconds: 3 }]);
  answer.apply({ type: "text", at: 0, text: "Hel" });
  answer.apply({ type: "text", at: 3, text: "lo" });
  expect([answer.text, answer.queue, answer.message.state]).toEqual(["Hello", null, "running"]);
  answer.apply({ type: "ended", message: apiMessage({ id: answer.id, text: "Hello." }) });
  expect([answer.running, answer.text]).toEqual([false, "Hello."]);
});

it("replaces text after a resumed stream's position, and drops it at a restart", () => {
  const answer = waiting();
  answer.apply({ type: "text", at: 0, text: "one two" });
  answer.reconnecting = true;
  answer.apply({ type: "text", at: 4, text: "two three" });
  expect([answer.text, answer.reconnecting]).toEqual(["one two three", false]);
  answer.apply({ type: "restart" });
  expect([answer.text, answer.running]).toEqual(["", true]);
});

it("replaces a step by its number, and drops steps at a restart", () => {
  const step = { number: 1, kind: "tool", name: "weather", state: "running", data: {} } as const;
  const answer = waiting();
  answer.apply({ type: "step", step: { ...step, number: 0, kind: "route", state: "done" } });
  answer.apply({ type: "step", step });
  answer.apply({ type: "step", step: { ...step, state: "done" } });
  expect(answer.steps.map((each) => each.state)).toEqual(["done", "done"]);
  expect(answer.message.state).toBe("running");
  answer.apply({ type: "restart" });
  expect(answer.steps).toEqual([]);
  answer.apply({ type: "ended", message: apiMessage({ id: answer.id, steps: [step] }) });
  expect(answer.steps).toEqual([step]);
});

it("gives the failure of a failed answer", () => {
  const error = { code: "insufficient_quota", message: "Budget used up.", retry_after: null };
  const answer = chatMessage({ state: "failed", error });
  expect(answer.failure).toMatchObject({ kind: "quota", detail: "Budget used up." });
  expect(waiting().failure).toBeNull();
});
