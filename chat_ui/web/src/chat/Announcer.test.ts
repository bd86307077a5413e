import { render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import type { Message, WholeConversation } from "../api/chat_types";
import * as streams from "../api/follow_answer";
import { Conversation } from "../state/conversation.svelte";
import Announcer from "./Announcer.svelte";
import { apiMessage } from "./messages.fixture";

async function shown(answer: Message): Promise<Conversation> {
  vi.spyOn(streams, "followAnswer").mockImplementation(async function* () {
    await new Promise(() => undefined);
    yield { type: "lost" };
  });
  const settings = { model: "m", system: "", temperature: null, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
  const whole = { title: "", shared: false, settings, leaf: answer.id, messages: [answer] };
  vi.spyOn(api, "readConversation").mockResolvedValue(whole as unknown as WholeConversation);
  const conversation = new Conversation({ changed: vi.fn() });
  await conversation.load("c");
  render(Announcer, { conversation });
  await tick();
  return conversation;
}
const status = (): string => screen.getByRole("status").textContent ?? "";

it("announces that an answer starts, then its text without markup, never its growth", async () => {
  const answer = apiMessage({ state: "running", text: "" });
  const conversation = await shown(answer);
  expect(status()).toBe("The model is answering.");
  conversation.path[0]?.apply({ type: "text", at: 0, text: "**It**" });
  await tick();
  expect(status()).toBe("The model is answering.");
  conversation.path[0]?.apply({ type: "ended", message: { ...answer, state: "done", text: "**It** mills." } });
  await tick();
  expect(status()).toContain("It mills.");
  expect(status()).not.toContain("*");
});

it("does not announce an answer that was complete when the page was opened", async () => {
  await shown(apiMessage({ state: "done", text: "Old." }));
  expect(status()).toBe("");
});

it("announces a running tool once, and the result of an answer without text", async () => {
  const step = { number: 1, kind: "tool", name: "image", state: "running", data: {} } as const;
  const answer = apiMessage({ state: "running", text: "" });
  const conversation = await shown(answer);
  conversation.path[0]?.apply({ type: "step", step });
  await tick();
  expect(status()).toBe("Drawing…");
  conversation.path[0]?.apply({ type: "step", step: { ...step, state: "done" } });
  await tick();
  expect(status()).toBe("The model is answering.");
  const ended = { ...answer, state: "done", steps: [{ ...step, state: "done" }] } as const;
  conversation.path[0]?.apply({ type: "ended", message: ended });
  await tick();
  expect(status()).toBe("Answer: The result is shown above.");
});
