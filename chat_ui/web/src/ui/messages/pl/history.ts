/** Teksty listy rozmów, wyszukiwania, eksportu i stron udostępnionych. */
import type { history as english } from "../en/history";

export const history: typeof english = {};
