/** Answers and turns in a given state, for the tests of what shows them. */
import type { StreamEvent } from "../api/events";
import { Answer } from "../state/answer.svelte";
import { Conversation, Turn } from "../state/conversation.svelte";
import { Parameters } from "../state/parameters.svelte";
import { Session } from "../state/session.svelte";

/** An answer whose texts arrive one second apart. */
export function answerOf(...events: StreamEvent[]): Answer {
  let now = 0;
  const answer = new Answer("tiny", () => 1000 * now++);
  for (const event of events) answer.apply(event);
  return answer;
}

export function turnOf(question: string, ...events: StreamEvent[]): Turn {
  return new Turn(0, question, answerOf(...events));
}

export function conversationOf(...turns: Turn[]): Conversation {
  const conversation = new Conversation(new Session(), new Parameters());
  conversation.turns = turns;
  return conversation;
}
