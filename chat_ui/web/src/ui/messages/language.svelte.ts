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

/** Returns the browser's first preferred variant of a language, such as `en-GB`; the language itself without one. */
export function variant(language: string, preferred: readonly string[]): string {
  return preferred.find((tag) => tag.toLowerCase().startsWith(`${language}-`)) ?? language;
}

export class Language {
  /** The chosen locale; null: the browser's preference. */
  chosen = $state<string | null>(preferences.get(PREFERENCE));
  readonly messages = $derived(choose(this.chosen === null ? navigator.languages : [this.chosen, ...navigator.languages]));
  /** Locale of numbers and dates: the page's language as in the browser's country. */
  readonly locale = $derived(variant(this.messages.locale, navigator.languages));

  choose(locale: string | null): void {
    this.chosen = locale;
    if (locale === null) preferences.remove(PREFERENCE);
    else preferences.set(PREFERENCE, locale);
  }
}

export const language = new Language();
