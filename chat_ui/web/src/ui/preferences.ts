/** Small choices about how the page looks, kept by the browser. Never anything that lets anybody in. */

const PREFIX = "headrace.";

/** What was remembered; null where nothing was, or the browser keeps nothing. */
export function recall(name: string): string | null {
  return storage()?.getItem(PREFIX + name) ?? null;
}

/** Keeps a choice where the browser allows that; it is good for this visit anyway. */
export function remember(name: string, value: string): void {
  try {
    storage()?.setItem(PREFIX + name, value);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

export function forget(name: string): void {
  storage()?.removeItem(PREFIX + name);
}

/** A browser that refuses storage throws when it is only named. */
function storage(): Storage | null {
  try {
    return localStorage;
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}
