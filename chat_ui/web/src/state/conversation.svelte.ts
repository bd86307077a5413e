/** Questions and answers of one conversation, and the one answer that may be running. Knows nothing of the screen. */
import { streamChat, type ChatMessage } from "../api/client";
import { Answer, type Clock } from "./answer.svelte";
import type { Parameters } from "./parameters.svelte";
import type { Session } from "./session.svelte";

export class Turn {
  answer: Answer;

  constructor(
    readonly id: number,
    readonly question: string,
    answer: Answer,
  ) {
    this.answer = $state.raw(answer);
  }
}

export class Conversation {
  turns = $state.raw<readonly Turn[]>([]);
  #nextId = 0;
  #abort: AbortController | null = null;

  constructor(
    private readonly session: Session,
    private readonly parameters: Parameters,
    private readonly clock: Clock = () => performance.now(),
  ) {}

  get running(): boolean {
    return this.turns.at(-1)?.answer.running ?? false;
  }

  async send(question: string): Promise<void> {
    if (this.running) return;
    const turn = new Turn(this.#nextId++, question, this.#newAnswer());
    this.turns = [...this.turns, turn];
    await this.#run(turn);
  }

  /** Asks the last question again, in place of its answer. */
  async retry(): Promise<void> {
    const turn = this.turns.at(-1);
    if (turn === undefined || this.running) return;
    turn.answer = this.#newAnswer();
    await this.#run(turn);
  }

  /** Ends the running answer; what has arrived stays. The closed connection cancels the job. */
  stop(): void {
    this.turns.at(-1)?.answer.stop();
    this.#abort?.abort();
  }

  clear(): void {
    this.stop();
    this.turns = [];
  }

  #newAnswer(): Answer {
    return new Answer(this.session.model, this.clock);
  }

  async #run(turn: Turn): Promise<void> {
    const answer = turn.answer;
    const abort = new AbortController();
    this.#abort = abort;
    const request = this.parameters.toRequest(answer.model, this.#messagesUpTo(turn));
    try {
      for await (const event of streamChat(this.session.key, request, abort.signal)) {
        if (abort.signal.aborted) break;
        answer.apply(event);
      }
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    }
  }

  /** A turn that brought no text is left out: two questions in a row confuse chat templates. */
  #messagesUpTo(turn: Turn): ChatMessage[] {
    const before = this.turns.slice(0, this.turns.indexOf(turn)).filter((earlier) => earlier.answer.text !== "");
    const history = before.flatMap((earlier): ChatMessage[] => [
      { role: "user", content: earlier.question },
      { role: "assistant", content: earlier.answer.text },
    ]);
    return [...history, { role: "user", content: turn.question }];
  }
}
