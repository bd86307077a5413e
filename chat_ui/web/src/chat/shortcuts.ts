/** The keys that work anywhere in the chat. Composers of other input (an input method) are left alone. */

export type Shortcut = "new" | "search" | "message";

/** What the keys mean here: Ctrl or ⌘ with Shift and O, Ctrl or ⌘ with K, and Shift with Escape; null for anything else. */
export function shortcutOf(event: KeyboardEvent): Shortcut | null {
  if (event.isComposing || event.altKey) return null;
  const command = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (command && event.shiftKey && key === "o") return "new";
  if (command && !event.shiftKey && key === "k") return "search";
  if (!command && event.shiftKey && key === "escape") return "message";
  return null;
}
