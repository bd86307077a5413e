/** Who is asking which model. The key lives in this object and nowhere else: closing the tab forgets it. */
import { listModels } from "../api/client";
import { ApiError, failureOf, type Failure } from "../api/failure";

export type SessionStatus = "signed-out" | "connecting" | "ready";

export class Session {
  status = $state<SessionStatus>("signed-out");
  models = $state.raw<readonly string[]>([]);
  model = $state("");
  failure = $state.raw<Failure | null>(null);
  #key = "";

  get key(): string {
    return this.#key;
  }

  /** Tries a key by listing the models; on failure says why, and keeps the key for `refresh` unless it is wrong. */
  async connect(key: string): Promise<void> {
    this.#key = key;
    this.status = "connecting";
    this.failure = null;
    try {
      this.#offer(await listModels(key));
      this.status = "ready";
    } catch (error) {
      this.#refuse(error instanceof ApiError ? error.failure : failureOf("network"));
    }
  }

  /** Lists the models again, with the same key and, where it is still there, the same choice. */
  refresh(): Promise<void> {
    return this.connect(this.#key);
  }

  signOut(): void {
    this.#key = "";
    this.status = "signed-out";
    this.failure = null;
  }

  #refuse(failure: Failure): void {
    if (failure.kind === "unauthorized") this.#key = "";
    this.status = "signed-out";
    this.failure = failure;
  }

  #offer(models: readonly string[]): void {
    this.models = models;
    if (!models.includes(this.model)) this.model = models[0] ?? "";
  }
}
