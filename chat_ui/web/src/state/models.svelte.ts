/** The models that can be asked, with price and context. */
import { listModels } from "../api/chat_api";
import type { Model } from "../api/chat_types";
import { ApiError, type Failure } from "../api/failure";

export class Models {
  list = $state.raw<readonly Model[]>([]);
  loaded = $state(false);
  failure = $state.raw<Failure | null>(null);

  async load(): Promise<void> {
    try {
      this.list = await listModels();
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

  /** `wished` if it is served; else the first that is ready. Empty if there is none. */
  choose(wished: string): string {
    if (this.find(wished) !== undefined) return wished;
    return (this.list.find((model) => model.ready) ?? this.list[0])?.id ?? "";
  }
}
