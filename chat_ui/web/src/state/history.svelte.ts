/**
 * Reactive state of the conversation list: pages loaded on scrolling, search, selection, and changes of conversations.
 */
import { SvelteSet } from "svelte/reactivity";
import * as api from "../api/chat_api";
import type { ConversationChanges, ConversationSummary } from "../api/chat_types";
import { ApiError, type Failure } from "../api/failure";

const PAGE = 100;

export class History {
  list = $state.raw<readonly ConversationSummary[]>([]);
  /** Number of search results. */
  total = $state(0);
  query = $state("");
  archived = $state(false);
  loading = $state(false);
  failure = $state.raw<Failure | null>(null);
  readonly selected = new SvelteSet<string>();
  #next: string | null = null;
  /** Number of the newest read; results of older ones are ignored. */
  #reading = 0;

  get complete(): boolean {
    return this.#next === null;
  }

  /** Loads the first page for the current search. */
  async load(): Promise<void> {
    await this.#read(null, PAGE);
  }

  async loadMore(): Promise<void> {
    if (!this.loading && this.#next !== null) await this.#read(this.#next, PAGE);
  }

  async search(query: string, archived = this.archived): Promise<void> {
    this.query = query;
    this.archived = archived;
    this.selected.clear();
    await this.#read(null, PAGE);
  }

  /** Updates a conversation in the list; an unknown one makes the list reload. */
  update(id: string, changes: Partial<ConversationSummary>): void {
    if (this.list.some((row) => row.id === id)) this.#put(id, changes);
    else if (this.query === "" && !this.archived) void this.load();
  }

  async change(id: string, changes: ConversationChanges): Promise<boolean> {
    return this.#try(async () => {
      await api.changeConversation(id, changes);
      if (changes.archived !== undefined && changes.archived !== this.archived) this.#drop(id);
      else this.#put(id, changes);
      if (changes.pinned !== undefined) await this.load();
    });
  }

  async remove(ids: readonly string[]): Promise<boolean> {
    return this.#try(async () => {
      for (const id of ids) {
        await api.deleteConversation(id);
        this.#drop(id);
      }
    });
  }

  toggle(id: string): void {
    if (!this.selected.delete(id)) this.selected.add(id);
  }

  #put(id: string, changes: Partial<ConversationSummary>): void {
    this.list = this.list.map((row) => (row.id === id ? { ...row, ...changes } : row));
  }

  #drop(id: string): void {
    this.selected.delete(id);
    this.list = this.list.filter((row) => row.id !== id);
    this.total -= 1;
  }

  async #read(cursor: string | null, limit: number): Promise<void> {
    const reading = (this.#reading += 1);
    this.loading = true;
    await this.#try(async () => {
      const page = await api.listConversations({ q: this.query, archived: this.archived, cursor, limit });
      if (reading !== this.#reading) return;
      this.list = cursor === null ? page.conversations : joined(this.list, page.conversations);
      this.#next = page.next;
      this.total = page.total ?? 0;
    });
    if (reading === this.#reading) this.loading = false;
  }

  async #try(action: () => Promise<void>): Promise<boolean> {
    try {
      await action();
      this.failure = null;
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.failure = error.failure;
      return false;
    }
  }
}

/** Appends a page without the conversations that are listed already: one that moved meanwhile is on both pages. */
function joined(list: readonly ConversationSummary[], more: readonly ConversationSummary[]): ConversationSummary[] {
  const known = new Set(list.map((row) => row.id));
  return [...list, ...more.filter((row) => !known.has(row.id))];
}
