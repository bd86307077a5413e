/**
 * What was written and not yet sent, by conversation: kept over a reload by this tab alone, until it is closed or the
 * person signs out.
 */
import { Memory } from "../ui/memory";

export const drafts = new Memory(() => sessionStorage, "headrace.draft.");

/** The name of a person's draft in a conversation; null: in a new one. */
export function draftOf(person: string, conversation: string | null): string {
  return `${person}.${conversation ?? "new"}`;
}
