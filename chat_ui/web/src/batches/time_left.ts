/** Estimates when a batch ends. */
import type { Batch } from "../api/types";

/** Returns the seconds until all lines are done, at the pace so far; null if that is not known. */
export function secondsLeft({ state, total, completed, failed, began }: Batch, now: number): number | null {
  const done = completed + failed;
  if (state !== "in_progress" || began === null || done === 0 || now <= began) return null;
  return ((total - done) * (now - began)) / done;
}
