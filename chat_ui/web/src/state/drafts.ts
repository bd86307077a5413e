/**
 * Unsent messages by conversation, kept in the tab's session storage until it is closed or the user signs out.
 */
import { WebStorage } from "../ui/web_storage";

export const drafts = new WebStorage(() => sessionStorage, "headrace.draft.");

/** Returns the key of a person's draft in a conversation; null: in a new one. */
export function draftKey(person: string, conversation: string | null): string {
  return `${person}.${conversation ?? "new"}`;
}
