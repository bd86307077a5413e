/** Which language the page speaks: the one chosen here before, else the first of the browser's that we have. */
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
  /** A locale, or null: as the browser says. */
  chosen = $state<string | null>(preferences.recall(PREFERENCE));
  readonly messages = $derived(choose(this.chosen === null ? navigator.languages : [this.chosen, ...navigator.languages]));

  choose(locale: string | null): void {
    this.chosen = locale;
    if (locale === null) preferences.forget(PREFERENCE);
    else preferences.remember(PREFERENCE, locale);
  }
}

export const language = new Language();
