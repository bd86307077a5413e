/** Reactive list of the models to choose from, with price and context length. */
import { listModels } from "../api/chat_api";
import type { Model, SearchOffer } from "../api/chat_types";
import { ApiError, type Failure } from "../api/failure";

export class Models {
  list = $state.raw<readonly Model[]>([]);
  /** What searches for answers can use. */
  search = $state.raw<SearchOffer>({ verifiers: [], max_tokens: 0, answer_tokens: 0 });
  loaded = $state(false);
  failure = $state.raw<Failure | null>(null);

  async load(): Promise<void> {
    try {
      ({ models: this.list, search: this.search } = await listModels());
      this.failure = null;
      this.loaded = true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.failure = error.failure;
    }
  }

  find(id: string): Model | undefined {
    return this.list.find((model) => model.id === id);
  }

  /** Returns `wished` if it exists, else the first ready model, preferably with tools, else the first one; empty if there is none. */
  choose(wished: string): string {
    if (this.find(wished) !== undefined) return wished;
    const ready = this.list.filter((model) => model.ready);
    return (ready.find((model) => model.tools.length > 0) ?? ready[0] ?? this.list[0])?.id ?? "";
  }
}
