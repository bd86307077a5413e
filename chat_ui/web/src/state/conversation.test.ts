import { beforeEach, expect, it, vi } from "vitest";
import * as client from "../api/client";
import type { StreamEvent } from "../api/events";
import { failureOf } from "../api/failure";
import { Conversation } from "./conversation.svelte";
import { Parameters } from "./parameters.svelte";
import { Session } from "./session.svelte";

const stream = vi.fn<typeof client.streamChat>();

function answering(...events: StreamEvent[]): void {
  stream.mockImplementationOnce(async function* () {
    yield* events;
  });
}
const text = (words: string): StreamEvent => ({ type: "text", text: words });
const failed: StreamEvent = { type: "failed", failure: failureOf("busy") };

/** An answer that says "half" and then waits for its abort. */
function hanging(): void {
  stream.mockImplementationOnce(async function* (_key, _request, signal) {
    yield text("half");
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new DOMException("", "AbortError"))));
  });
}

beforeEach(() => {
  stream.mockReset();
  vi.spyOn(client, "streamChat").mockImplementation(stream);
});

function conversation(): Conversation {
  const session = new Session();
  session.model = "m";
  return new Conversation(session, new Parameters());
}

const lastMessages = (): unknown => stream.mock.lastCall?.[1].messages;

it("carries the turns before into the next request, without those that brought nothing", async () => {
  const chat = conversation();
  answering(text("one"), { type: "done" });
  await chat.send("1?");
  answering(failed);
  await chat.send("2?");
  answering(text("three"), { type: "done" });
  await chat.send("3?");
  expect(lastMessages()).toEqual([
    { role: "user", content: "1?" },
    { role: "assistant", content: "one" },
    { role: "user", content: "3?" },
  ]);
});

it("retries in place", async () => {
  const chat = conversation();
  answering(text("ha"), failed);
  await chat.send("q");
  answering(text("whole"), { type: "done" });
  await chat.retry();
  expect(chat.turns.map((turn) => [turn.question, turn.answer.text, turn.answer.status])).toEqual([["q", "whole", "finished"]]);
  expect(lastMessages()).toEqual([{ role: "user", content: "q" }]);
});

it("stops: the connection is aborted, the text stays, and a new question can be asked", async () => {
  const chat = conversation();
  hanging();
  const sending = chat.send("q");
  await vi.waitUntil(() => chat.turns[0]?.answer.text === "half");
  await chat.send("ignored while running");
  expect(stream).toHaveBeenCalledTimes(1);
  chat.stop();
  await sending;
  expect(stream.mock.lastCall?.[2].aborted).toBe(true);
  expect(chat.turns.map((turn) => turn.answer.status)).toEqual(["stopped"]);
});

it("clears, and an answer still on its way does not come back", async () => {
  const chat = conversation();
  hanging();
  const sending = chat.send("q");
  await vi.waitUntil(() => chat.turns[0]?.answer.text === "half");
  chat.clear();
  await sending;
  expect(chat.turns).toEqual([]);
  expect(chat.running).toBe(false);
});
