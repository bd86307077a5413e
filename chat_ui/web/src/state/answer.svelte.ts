/** One message as the screen shows it; an answer grows by what its stream brings. Knows neither fetch nor Markdown. */
import type { AnswerEvent } from "../api/answer_events";
import type { Message } from "../api/chat_types";
import { failureOf, kindOf, type Failure } from "../api/failure";

export interface Queue {
  /** How many wait before it. */
  readonly position: number | null;
  readonly seconds: number | null;
}

export class Answer {
  message = $state.raw<Message>({} as Message);
  text = $state("");
  queue = $state.raw<Queue | null>(null);
  /** The connection broke and is being made again. */
  lost = $state(false);
  /** Somebody reads its stream already. */
  followed = false;
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
  }

  get running(): boolean {
    return this.refused === null && (this.message.state === "waiting" || this.message.state === "running");
  }

  /** Why there is no answer, or not all of it; null while there is nothing to say. */
  get failure(): Failure | null {
    if (this.refused !== null) return this.refused;
    if (this.message.state !== "failed") return null;
    const error = this.message.error;
    const code = error?.code ?? "";
    return failureOf(kindOf(500, code), error?.message ?? "", error?.retry_after ?? null, code);
  }

  apply(event: AnswerEvent): void {
    this.lost = false;
    switch (event.type) {
      case "waiting":
        this.queue = { position: event.position, seconds: event.seconds };
        break;
      case "text":
        this.#put(event.at, event.text);
        break;
      case "restart":
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
    this.queue = null;
    this.lost = false;
  }

  /** What there is up to `at` stays: a stream that was asked for again may send some of it twice. */
  #put(at: number, text: string): void {
    this.queue = null;
    if (this.message.state === "waiting") this.message = { ...this.message, state: "running" };
    this.text = this.text.slice(0, at) + text;
  }
}
