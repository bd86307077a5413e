/** Reactive state of one message; an answer is updated by the events of its stream. */
import type { AnswerEvent } from "../api/answer_events";
import type { Message, Step } from "../api/chat_types";
import { failureOf, kindOf, type Failure } from "../api/failure";

export interface Queue {
  /** Number of requests before this one. */
  readonly position: number | null;
  readonly seconds: number | null;
}

export class ChatMessage {
  message = $state.raw<Message>({} as Message);
  text = $state("");
  /** What an assistant did before the text, in order. */
  steps = $state.raw<readonly Step[]>([]);
  queue = $state.raw<Queue | null>(null);
  /** Whether the stream's connection broke and is being retried. */
  reconnecting = $state(false);
  /** Whether a task is reading the stream already. */
  streaming = false;
  refused = $state.raw<Failure | null>(null);
  readonly id: string;
  readonly parent: string | null;
  readonly created: number;

  constructor(message: Message) {
    this.id = message.id;
    this.parent = message.parent;
    this.created = message.created;
    this.message = message;
    this.text = message.text;
    this.steps = stepsOf(message);
  }

  get running(): boolean {
    return this.refused === null && (this.message.state === "waiting" || this.message.state === "running");
  }

  /** Why the answer is missing or incomplete; null if it is neither. */
  get failure(): Failure | null {
    if (this.refused !== null) return this.refused;
    if (this.message.state !== "failed") return null;
    const error = this.message.error;
    const code = error?.code ?? "";
    return failureOf(kindOf(500, code), error?.message ?? "", error?.retry_after ?? null, code);
  }

  apply(event: AnswerEvent): void {
    this.reconnecting = false;
    switch (event.type) {
      case "waiting":
        this.queue = { position: event.position, seconds: event.seconds };
        break;
      case "text":
        this.#put(event.at, event.text);
        break;
      case "step":
        this.#putStep(event.step);
        break;
      case "restart":
        this.steps = [];
        this.#put(0, "");
        break;
      case "ended":
        this.end(event.message);
        break;
      case "title":
        break;
    }
  }

  end(message: Message): void {
    this.message = message;
    this.text = message.text;
    this.steps = stepsOf(message);
    this.queue = null;
    this.reconnecting = false;
  }

  /** Replaces the text after `at`: a resumed stream may send some of it twice. */
  #put(at: number, text: string): void {
    this.#begin();
    this.text = this.text.slice(0, at) + text;
  }

  /** Replaces the step of the same number: a step that began ends, and a resumed stream sends steps again. */
  #putStep(step: Step): void {
    this.#begin();
    const at = this.steps.findIndex((each) => each.number === step.number);
    this.steps = at === -1 ? [...this.steps, step] : this.steps.with(at, step);
  }

  #begin(): void {
    this.queue = null;
    if (this.message.state === "waiting") this.message = { ...this.message, state: "running" };
  }
}

/** Returns a message's steps; none if a gateway of an older version sent it, while versions change. */
function stepsOf(message: Partial<Message>): readonly Step[] {
  return message.steps ?? [];
}
