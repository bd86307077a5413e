/** Toast notifications of successful and failed actions. */
import { ApiError } from "../api/failure";
import { errorText } from "./error_text";

export interface Toast {
  readonly id: number;
  readonly kind: "done" | "failed";
  readonly text: string;
}

const SECONDS_SHOWN = { done: 5, failed: 12 } as const;

export class Toasts {
  notices = $state.raw<readonly Toast[]>([]);
  /** Regions that can show toasts: the page and each open dialog. The last one shows them. */
  regions = $state.raw<readonly string[]>([]);
  #next = 0;

  show(text: string, kind: Toast["kind"] = "done"): void {
    const notice = { id: this.#next++, kind, text };
    this.notices = [...this.notices, notice];
    setTimeout(() => this.dismiss(notice.id), SECONDS_SHOWN[kind] * 1000);
  }

  /** Shows toasts in another region, until the returned function is called. */
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

/** Performs an API action and shows a toast if it fails. Returns whether it succeeded. */
export async function withErrorToast(action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toasts.show(errorText(error.failure), "failed");
    return false;
  }
}
