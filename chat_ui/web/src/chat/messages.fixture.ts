/** Builds messages and answers in a given state for component tests. */
import type { Message } from "../api/chat_types";
import { ChatMessage } from "../state/chat_message.svelte";

let made = 0;

/** Returns a message; by default a finished answer without a parent. */
export function apiMessage(changes: Partial<Message> = {}): Message {
  made += 1;
  return {
    id: `msg_${made}`,
    parent: null,
    role: "assistant",
    text: "Text.",
    created: made,
    attachments: [],
    images: [],
    steps: [],
    model: "tiny",
    settings: null,
    state: "done",
    error: null,
    finish_reason: "stop",
    usage: null,
    cost_nano: null,
    seconds: null,
    first_token_seconds: null,
    ...changes,
  };
}

export function chatMessage(changes: Partial<Message> = {}): ChatMessage {
  return new ChatMessage(apiMessage(changes));
}
