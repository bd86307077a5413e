/** The keys that work anywhere in the chat. Composers of other input (an input method) are left alone. */

export type Shortcut = "new" | "search" | "message" | "list" | "help";

/** What `key` means with Ctrl or ⌘; those in capitals with Shift too. */
const COMMANDS = new Map<string, Shortcut>([
  ["O", "new"],
  ["S", "list"],
  ["k", "search"],
  ["/", "help"],
]);

/** What the keys mean here: a command, or Shift with Escape; null for anything else. */
export function shortcutOf(event: KeyboardEvent): Shortcut | null {
  if (event.isComposing || event.altKey) return null;
  if (!event.ctrlKey && !event.metaKey) return event.shiftKey && event.key === "Escape" ? "message" : null;
  const key = event.key === "/" || !event.shiftKey ? event.key.toLowerCase() : event.key.toUpperCase();
  return COMMANDS.get(key) ?? null;
}

/** How the key that commands is called on this machine. */
export const COMMAND = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";
