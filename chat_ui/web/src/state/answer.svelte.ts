/** One answer while it comes in: folds stream events into what the screen shows. Knows neither fetch nor Markdown. */
import type { StreamEvent, Usage } from "../api/events";
import type { Failure } from "../api/failure";

export type AnswerStatus = "waiting" | "streaming" | "finished" | "stopped" | "failed";

/** Milliseconds on a monotonic clock. */
export type Clock = () => number;

export class Answer {
  text = $state("");
  status = $state<AnswerStatus>("waiting");
  finishReason = $state<string | null>(null);
  usage = $state.raw<Usage | null>(null);
  failure = $state.raw<Failure | null>(null);
  firstTextAfter = $state<number | null>(null);
  #lastTextAfter = 0;
  readonly #startedAt: number;

  constructor(
    readonly model: string,
    private readonly clock: Clock,
  ) {
    this.#startedAt = clock();
  }

  get running(): boolean {
    return this.status === "waiting" || this.status === "streaming";
  }

  /** Tokens a second between the first and the last text; null while unknown or too short to mean anything. */
  get speed(): number | null {
    if (this.running || this.usage === null || this.firstTextAfter === null) return null;
    const seconds = (this.#lastTextAfter - this.firstTextAfter) / 1000;
    return this.usage.completionTokens < 2 || seconds <= 0 ? null : (this.usage.completionTokens - 1) / seconds;
  }

  apply(event: StreamEvent): void {
    switch (event.type) {
      case "text":
        this.#append(event.text);
        break;
      case "finished":
        this.finishReason = event.reason;
        break;
      case "usage":
        this.usage = event.usage;
        break;
      case "failed":
        this.failure = event.failure;
        this.status = "failed";
        break;
      case "done":
        this.status = "finished";
        break;
    }
  }

  stop(): void {
    if (this.running) this.status = "stopped";
  }

  #append(text: string): void {
    this.#lastTextAfter = this.clock() - this.#startedAt;
    this.firstTextAfter ??= this.#lastTextAfter;
    this.status = "streaming";
    this.text += text;
  }
}
