/** Short notices that come and go: what was done, and what did not work. */
import { ApiError } from "../api/failure";
import { problemText } from "./problem";

export interface Notice {
  readonly id: number;
  readonly kind: "done" | "failed";
  readonly text: string;
}

const SECONDS_SHOWN = { done: 5, failed: 12 } as const;

export class Toasts {
  notices = $state.raw<readonly Notice[]>([]);
  /** Where they can be shown: the page, and each dialog that is open. The last one shows them. */
  regions = $state.raw<readonly string[]>([]);
  #next = 0;

  say(text: string, kind: Notice["kind"] = "done"): void {
    const notice = { id: this.#next++, kind, text };
    this.notices = [...this.notices, notice];
    setTimeout(() => this.dismiss(notice.id), SECONDS_SHOWN[kind] * 1000);
  }

  /** Shows the notices in another region, until the returned function is called. */
  showIn(region: string): () => void {
    this.regions = [...this.regions, region];
    return () => {
      this.regions = this.regions.filter((each) => each !== region);
    };
  }

  dismiss(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }
}

export const toasts = new Toasts();

/** Does something of the API's; says so when it fails. True if it was done. */
export async function attempt(action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toasts.say(problemText(error.failure), "failed");
    return false;
  }
}
