/**
 * Reactive state of one conversation: the tree of its messages, the selected branch, and the answers in progress.
 * The server writes answers independently of this object, which reads their streams.
 */
import * as api from "../api/chat_api";
import type { Attachment, Message, WholeConversation } from "../api/chat_types";
import { ApiError, type Failure } from "../api/failure";
import { followAnswer } from "../api/follow_answer";
import { ChatMessage } from "./chat_message.svelte";
import type { Consent } from "../steps/step_data";
import { Settings } from "./settings.svelte";
import { leafBelow, pathTo, siblingsOf, type Tree } from "./tree";

export type ConversationStatus = "ready" | "loading" | "failed";

/** Is notified of changes of the title and of running answers, which the conversation list shows. */
export interface Listener {
  changed(conversation: Conversation): void;
}

export class Conversation {
  /** Null until the first question is sent. */
  id = $state<string | null>(null);
  title = $state("");
  shared = $state(false);
  status = $state<ConversationStatus>("ready");
  /** Why loading or the last action failed. */
  failure = $state.raw<Failure | null>(null);
  readonly settings = new Settings();
  leaf = $state<string | null>(null);
  #messages = $state.raw<Tree<ChatMessage>>({});
  /** The messages of the selected branch. */
  readonly path: readonly ChatMessage[] = $derived(pathTo(this.#messages, this.leaf));
  readonly running: ChatMessage | null = $derived(this.path.find((message) => message.running) ?? null);
  #sending = $state(false);
  readonly #closed = new AbortController();

  constructor(private readonly listener: Listener) {}

  get busy(): boolean {
    return this.#sending || this.running !== null;
  }

  /** Loads the conversation and follows its running answers; a repeated call picks up changes of other devices. */
  async load(id: string): Promise<void> {
    this.id = id;
    if (this.leaf === null) this.status = "loading";
    try {
      this.#apply(await api.readConversation(id));
      this.failure = null;
      this.status = "ready";
    } catch (error) {
      if (this.leaf === null) this.status = "failed";
      this.failure = failureIn(error);
    }
  }

  /** Sends a question after `parent`, by default the last message. Returns whether the server accepted it. */
  async send(
    text: string,
    attachments: readonly Attachment[] = [],
    images: readonly api.ImageReference[] = [],
    parent = this.#end(),
    attachments_of: string | null = null,
  ): Promise<boolean> {
    return this.#begin(async (id) => {
      const settings = this.settings.value;
      const named = images.map(({ blob, name }) => ({ blob, name }));
      const asked = await api.ask(id, { parent, text, attachments, images: named, attachments_of, settings });
      return [asked.question, asked.answer];
    });
  }

  /** Sends an edited question as a new branch with the files and images of the old one. */
  async edit(question: ChatMessage, text: string): Promise<boolean> {
    const { attachments, images } = question.message;
    return this.send(text, [], [], question.parent, attachments.length + images.length > 0 ? question.id : null);
  }

  /** Requests another answer to the same question. */
  async regenerate(answer: ChatMessage): Promise<boolean> {
    return this.#begin(async (id) => [(await api.regenerate(id, answer.id, this.settings.value)).answer]);
  }

  /** Requests the answer again with consent to a call of a tool, in this answer alone or in the whole conversation. */
  async allow(answer: ChatMessage, consent: Consent, always: boolean): Promise<boolean> {
    if (always) this.settings.allow(consent.allow);
    const once = always ? null : consent.allowOnce;
    return this.#begin(async (id) => [(await api.regenerate(id, answer.id, this.settings.value, once)).answer]);
  }

  /** Withdraws the consent to a tool. It stays in the settings until the server has stored the withdrawal. */
  async withdraw(tool: string): Promise<void> {
    const { id } = this;
    const settings = { ...this.settings.value, tools_allowed: this.settings.allowedWithout(tool) };
    const stored = id === null || (await this.#try(() => api.changeConversation(id, { settings })));
    if (stored) this.settings.withdraw(tool);
  }

  /** Stops the running answer on the server; its text so far stays. */
  async stop(): Promise<void> {
    const { id, running } = this;
    if (id !== null && running !== null) await this.#try(() => api.stopAnswer(id, running.id));
  }

  /** Returns the message and its siblings, oldest first. */
  branchesOf(message: ChatMessage): readonly ChatMessage[] {
    return siblingsOf(this.#messages, message);
  }

  /** Selects the branch of a sibling, and stores the selection on the server. */
  async show(sibling: ChatMessage): Promise<void> {
    this.leaf = leafBelow(this.#messages, sibling.id);
    const { id, leaf } = this;
    if (id !== null && leaf !== null) await this.#try(() => api.changeConversation(id, { leaf }));
  }

  /** Stops reading streams, when the page shows another conversation. The server continues the answers. */
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

  #apply(whole: WholeConversation): void {
    this.title = whole.title;
    this.shared = whole.shared;
    if (this.leaf === null) this.settings.replace(whole.settings);
    this.#add(whole.messages);
    this.leaf = whole.leaf;
  }

  /** Adds or updates messages, except those that are updated by their stream. */
  #add(messages: readonly Message[]): void {
    const all: Record<string, ChatMessage> = { ...this.#messages };
    for (const message of messages) {
      const known = all[message.id];
      if (known === undefined) all[message.id] = new ChatMessage(message);
      else if (!known.streaming) known.end(message);
    }
    this.#messages = all;
    for (const message of Object.values(all)) if (message.running) void this.#follow(message);
  }

  async #follow(answer: ChatMessage): Promise<void> {
    if (this.id === null || answer.streaming) return;
    answer.streaming = true;
    try {
      for await (const event of followAnswer(this.id, answer.id, this.#closed.signal)) {
        if (event.type === "lost") answer.reconnecting = true;
        else if (event.type === "refused") answer.refused = event.failure;
        else answer.apply(event);
        if (event.type === "title") this.title = event.title;
        if (event.type === "title" || event.type === "ended") this.listener.changed(this);
      }
    } catch (error) {
      if (!this.#closed.signal.aborted) throw error;
    } finally {
      answer.streaming = false;
    }
  }
}

/** Returns the failure of an API error; other errors are bugs and are thrown. */
function failureIn(error: unknown): Failure {
  if (error instanceof ApiError) return error.failure;
  throw error;
}
