/** An API key handed over in the address (`#key=...`): a fragment never reaches a server or its log. */

/** The key in the fragment, or null; the fragment leaves the address bar and the history entry at once. */
export function takeKeyFromAddress(location: Location, history: History): string | null {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return key.trim() || null;
}
