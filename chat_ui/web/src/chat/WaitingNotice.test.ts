import { render } from "@testing-library/svelte";
import { expect, it } from "vitest";
import type { ChatMessage } from "../state/chat_message.svelte";
import { chatMessage } from "./messages.fixture";
import WaitingNotice from "./WaitingNotice.svelte";

function notice(change: (answer: ChatMessage) => void): string {
  const answer = chatMessage({ state: "waiting", text: "" });
  change(answer);
  return render(WaitingNotice, { answer }).container.textContent?.trim() ?? "";
}

it.each<[(answer: ChatMessage) => void, string]>([
  [() => undefined, "Waiting for the model…"],
  [(answer) => (answer.queue = { position: 0, seconds: null }), "Next in line"],
  [(answer) => (answer.queue = { position: 1, seconds: 2.2 }), "1 request waits before this one · about 3 s"],
  [(answer) => (answer.queue = { position: 1200, seconds: null }), "1,200 requests wait before this one"],
  [(answer) => (answer.reconnecting = true), "The connection was lost. The answer goes on; reconnecting…"],
])("shows the state of a waiting answer", (change, text) => {
  expect(notice(change)).toBe(text);
});
