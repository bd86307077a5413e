/** The page's language: the stored choice, else the browser's first preferred language that is available. */
import { preferences } from "../preferences";
import { en, type Messages } from "./en";
import { pl } from "./pl";

export const LANGUAGES: readonly Messages[] = [en, pl];
const PREFERENCE = "language";

export function choose(preferred: readonly string[]): Messages {
  for (const tag of preferred) {
    const found = LANGUAGES.find((language) => tag.toLowerCase().split("-")[0] === language.locale);
    if (found !== undefined) return found;
  }
  return en;
}

export class Language {
  /** The chosen locale; null: the browser's preference. */
  chosen = $state<string | null>(preferences.get(PREFERENCE));
  readonly messages = $derived(choose(this.chosen === null ? navigator.languages : [this.chosen, ...navigator.languages]));

  choose(locale: string | null): void {
    this.chosen = locale;
    if (locale === null) preferences.remove(PREFERENCE);
    else preferences.set(PREFERENCE, locale);
  }
}

export const language = new Language();
