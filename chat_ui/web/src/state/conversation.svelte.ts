/**
 * One conversation: the tree of its messages, the branch that is shown, and the answers that are being written.
 * The answers are written by the server whether or not anybody looks; this object only follows. Knows no screen.
 */
import * as api from "../api/chat_api";
import type { Attachment, Message, WholeConversation } from "../api/chat_types";
import { ApiError, type Failure } from "../api/failure";
import { followAnswer } from "../api/follow_answer";
import { Answer } from "./answer.svelte";
import { Settings } from "./settings.svelte";
import { leafBelow, pathTo, siblingsOf, type Tree } from "./tree";

export type ConversationStatus = "ready" | "loading" | "failed";

/** What others may want to know: the list of conversations shows a title and what is running. */
export interface Listener {
  changed(conversation: Conversation): void;
}

export class Conversation {
  /** Null until the first question is sent. */
  id = $state<string | null>(null);
  title = $state("");
  shared = $state(false);
  status = $state<ConversationStatus>("ready");
  /** Why it can't be read, or why the last thing asked of it was not done. */
  failure = $state.raw<Failure | null>(null);
  readonly settings = new Settings();
  leaf = $state<string | null>(null);
  #messages = $state.raw<Tree<Answer>>({});
  /** What is shown: questions and answers in turn. */
  readonly path: readonly Answer[] = $derived(pathTo(this.#messages, this.leaf));
  readonly running: Answer | null = $derived(this.path.find((message) => message.running) ?? null);
  #sending = $state(false);
  readonly #closed = new AbortController();

  constructor(private readonly listener: Listener) {}

  get busy(): boolean {
    return this.#sending || this.running !== null;
  }

  /** Reads the conversation from the server and follows what is running; also to catch up with another device. */
  async load(id: string): Promise<void> {
    this.id = id;
    if (this.leaf === null) this.status = "loading";
    try {
      this.#take(await api.readConversation(id));
      this.failure = null;
      this.status = "ready";
    } catch (error) {
      if (this.leaf === null) this.status = "failed";
      this.failure = failureIn(error);
    }
  }

  /** Asks at the end of the shown branch, or below `parent`. True if it was taken. */
  async send(
    text: string,
    attachments: readonly Attachment[] = [],
    parent = this.#end(),
    attachments_of: string | null = null,
  ): Promise<boolean> {
    return this.#begin(async (id) => {
      const settings = this.settings.value;
      const asked = await api.ask(id, { parent, text, attachments, attachments_of, settings });
      return [asked.question, asked.answer];
    });
  }

  /** The same question in other words, beside the old one; its files stay with it. */
  async edit(question: Answer, text: string): Promise<boolean> {
    return this.send(text, [], question.parent, question.message.attachments.length > 0 ? question.id : null);
  }

  /** Another answer to the same question. */
  async regenerate(answer: Answer): Promise<boolean> {
    return this.#begin(async (id) => [(await api.regenerate(id, answer.id, this.settings.value)).answer]);
  }

  /** Ends the running answer for everybody who follows it; what has been written stays. */
  async stop(): Promise<void> {
    const { id, running } = this;
    if (id !== null && running !== null) await this.#try(() => api.stopAnswer(id, running.id));
  }

  /** Where `message` stands among its siblings: they are ways on from the same point. */
  branchesOf(message: Answer): readonly Answer[] {
    return siblingsOf(this.#messages, message);
  }

  /** Shows the branch of a sibling, and remembers that on every device. */
  async show(sibling: Answer): Promise<void> {
    this.leaf = leafBelow(this.#messages, sibling.id);
    const { id, leaf } = this;
    if (id !== null && leaf !== null) await this.#try(() => api.changeConversation(id, { leaf }));
  }

  /** Follows nothing any more: the page shows another conversation. The answers go on. */
  close(): void {
    this.#closed.abort();
  }

  #end(): string | null {
    return this.path.at(-1)?.id ?? null;
  }

  async #begin(ask: (id: string) => Promise<readonly Message[]>): Promise<boolean> {
    if (this.#sending) return false;
    this.#sending = true;
    const done = await this.#try(async () => {
      this.id ??= (await api.createConversation(this.settings.value)).id;
      const added = await ask(this.id);
      this.#add(added);
      this.leaf = added.at(-1)?.id ?? this.leaf;
      this.listener.changed(this);
    });
    this.#sending = false;
    return done;
  }

  async #try(action: () => Promise<unknown>): Promise<boolean> {
    this.failure = null;
    try {
      await action();
      return true;
    } catch (error) {
      this.failure = failureIn(error);
      return false;
    }
  }

  #take(whole: WholeConversation): void {
    this.title = whole.title;
    this.shared = whole.shared;
    if (this.leaf === null) this.settings.take(whole.settings);
    this.#add(whole.messages);
    this.leaf = whole.leaf;
  }

  /** Messages that are here already stay as they are while they are followed. */
  #add(messages: readonly Message[]): void {
    const all: Record<string, Answer> = { ...this.#messages };
    for (const message of messages) {
      const known = all[message.id];
      if (known === undefined) all[message.id] = new Answer(message);
      else if (!known.followed) known.end(message);
    }
    this.#messages = all;
    for (const message of Object.values(all)) if (message.running) void this.#follow(message);
  }

  async #follow(answer: Answer): Promise<void> {
    if (this.id === null || answer.followed) return;
    answer.followed = true;
    try {
      for await (const event of followAnswer(this.id, answer.id, this.#closed.signal)) {
        if (event.type === "lost") answer.lost = true;
        else if (event.type === "refused") answer.refused = event.failure;
        else answer.apply(event);
        if (event.type === "title") this.title = event.title;
        if (event.type === "title" || event.type === "ended") this.listener.changed(this);
      }
    } catch (error) {
      if (!this.#closed.signal.aborted) throw error;
    } finally {
      answer.followed = false;
    }
  }
}

/** Only what the server or the way to it did is told to the person; anything else is a bug, and not hidden. */
function failureIn(error: unknown): Failure {
  if (error instanceof ApiError) return error.failure;
  throw error;
}
