import { expect, it } from "vitest";
import { decodeEvent } from "./answer_events";

it("decodes known events", () => {
  expect(decodeEvent("text", '{"at": 3, "text": "x", "more": 1}')).toEqual({ type: "text", at: 3, text: "x" });
  expect(decodeEvent("waiting", '{"position": null}')).toEqual({ type: "waiting", position: null, seconds: null });
  expect(decodeEvent("restart", "{}")).toEqual({ type: "restart" });
  const step = { number: 0, kind: "tool", name: "weather", state: "running", data: {} };
  expect(decodeEvent("step", JSON.stringify({ step: { ...step, more: 1 } }))).toEqual({ type: "step", step });
  expect(decodeEvent("done", '{"message": {"id": "m", "text": "t"}}')).toMatchObject({ type: "ended" });
  expect(decodeEvent("title", '{"title": "T"}')).toEqual({ type: "title", title: "T" });
});

it.each([
  ["execute", '{"code": "alert(1)"}'],
  ["text", '{"at": -1, "text": "x"}'],
  ["text", '{"at": 0, "text": {"html": "x"}}'],
  ["text", "not JSON"],
  ["step", '{"step": {"number": 0, "kind": "tool", "name": "x", "state": "odd", "data": {}}}'],
  ["step", '{"step": {"number": 0, "kind": "tool", "name": "x", "state": "done", "data": "x"}}'],
  ["done", '{"message": "x"}'],
  [undefined, '{"at": 0, "text": "x"}'],
])("drops what is not ours: %s %s", (name, data) => {
  expect(decodeEvent(name, data)).toBeNull();
});
