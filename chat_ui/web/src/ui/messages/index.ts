/** The texts in the person's language; English where we do not have it. */
import { en, type Messages } from "./en";
import { pl } from "./pl";

const LANGUAGES: readonly Messages[] = [en, pl];

export function choose(preferred: readonly string[]): Messages {
  for (const tag of preferred) {
    const found = LANGUAGES.find((language) => tag.toLowerCase().split("-")[0] === language.locale);
    if (found !== undefined) return found;
  }
  return en;
}

/** The language is chosen once, when the page loads. */
export const texts: Messages = choose(navigator.languages);
