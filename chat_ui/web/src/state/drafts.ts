/**
 * Unsent messages by conversation, kept in the tab's session storage until it is closed or the user signs out.
 */
import { Memory } from "../ui/memory";

export const drafts = new Memory(() => sessionStorage, "headrace.draft.");

/** Returns the key of a person's draft in a conversation; null: in a new one. */
export function draftOf(person: string, conversation: string | null): string {
  return `${person}.${conversation ?? "new"}`;
}
