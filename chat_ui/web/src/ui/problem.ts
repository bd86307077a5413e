/** A failure of the chat's API in the person's language; the server's own words where there are no better ones. */
import type { Failure } from "../api/failure";
import { texts } from "./messages";

export function problemText(failure: Failure): string {
  return texts.problems[failure.code] ?? (failure.detail || texts.failures[failure.kind]);
}
