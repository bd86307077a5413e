import { beforeEach, expect, it, vi } from "vitest";
import { ApiError, failureOf } from "../api/failure";
import { type Send, Uploads } from "./uploads.svelte";

const PROBLEMS = { empty: "empty", tooLarge: "large" };

interface Sending {
  readonly name: string;
  readonly onSent: (bytes: number) => void;
  readonly signal: AbortSignal;
  readonly end: () => void;
  readonly fail: (error: Error) => void;
}

let sending: Sending[];
const send: Send = (file, onSent, signal) =>
  new Promise((end, fail) => sending.push({ name: file.name, onSent, signal, end, fail }));
const onDone = vi.fn();
const file = (name: string, size = 100): File => new File(["x".repeat(size)], name);

beforeEach(() => {
  sending = [];
  vi.useFakeTimers({ now: 0 });
  onDone.mockClear();
  return () => vi.useRealTimers();
});

it("sends three files at a time, with their rate and the time left", async () => {
  const uploads = new Uploads(send, onDone, 1000);
  uploads.add(["a", "b", "c", "d"].map((name) => file(name)), PROBLEMS);
  expect(sending.map(({ name }) => name)).toEqual(["a", "b", "c"]);
  expect([uploads.rate, uploads.secondsLeft]).toEqual([null, null]);
  vi.setSystemTime(10_000);
  sending[0]?.onSent(50);
  expect([uploads.rate, uploads.secondsLeft]).toEqual([5, 70]);
  sending[0]?.end();
  await vi.advanceTimersByTimeAsync(0);
  expect(onDone).toHaveBeenCalledTimes(1);
  expect(sending.map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
  expect(uploads.items.map((each) => [each.file.name, each.state])).toEqual([
    ["b", "sending"],
    ["c", "sending"],
    ["d", "sending"],
  ]);
});

it("names files that fail, are empty or too large, while others go on", async () => {
  const uploads = new Uploads(send, onDone, 150);
  uploads.add([file("a"), file("none", 0), file("huge", 151), file("b")], PROBLEMS);
  expect(sending.map(({ name }) => name)).toEqual(["a", "b"]);
  sending[0]?.fail(new ApiError(failureOf("refused", "The disk is full.")));
  await vi.advanceTimersByTimeAsync(0);
  expect(uploads.items.map((each) => [each.file.name, each.state, each.problem])).toEqual([
    ["a", "failed", "The disk is full."],
    ["none", "failed", "empty"],
    ["huge", "failed", "large"],
    ["b", "sending", ""],
  ]);
});

it("cancels an upload that is removed, and all when it is closed", () => {
  const uploads = new Uploads(send, onDone, 1000);
  uploads.add(["a", "b", "c", "d"].map((name) => file(name)), PROBLEMS);
  const [first] = uploads.items;
  if (first) uploads.remove(first);
  expect(sending[0]?.signal.aborted).toBe(true);
  expect(sending.map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
  uploads.close();
  expect(sending.every(({ signal }) => signal.aborted)).toBe(true);
  expect(uploads.items).toEqual([]);
});
