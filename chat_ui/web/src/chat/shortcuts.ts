/** Keyboard shortcuts of the chat page. Key events of an input method are ignored. */

export type Shortcut = "new" | "search" | "message" | "list" | "help";

/** Shortcuts by key, with Ctrl or ⌘; capital letters need Shift too. */
const COMMANDS = new Map<string, Shortcut>([
  ["O", "new"],
  ["S", "list"],
  ["k", "search"],
  ["/", "help"],
]);

/** Returns the shortcut of a key event; null if it is none. */
export function shortcutOf(event: KeyboardEvent): Shortcut | null {
  if (event.isComposing || event.altKey) return null;
  if (!event.ctrlKey && !event.metaKey) return event.shiftKey && event.key === "Escape" ? "message" : null;
  const key = event.key === "/" || !event.shiftKey ? event.key.toLowerCase() : event.key.toUpperCase();
  return COMMANDS.get(key) ?? null;
}

/** Name of the modifier key on this platform. */
export const COMMAND = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";
