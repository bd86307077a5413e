/** Colour theme: light, dark or the system's, as an attribute that `theme.css` uses. */
import { preferences } from "./preferences";

export const THEMES = ["system", "light", "dark"] as const;
export type ThemeName = (typeof THEMES)[number];
const PREFERENCE = "theme";

function known(name: string | null): ThemeName {
  return THEMES.find((theme) => theme === name) ?? "system";
}

export class Theme {
  chosen = $state<ThemeName>(known(preferences.get(PREFERENCE)));

  /** Sets the theme's attribute on the document. */
  apply(): void {
    if (this.chosen === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = this.chosen;
  }

  choose(name: ThemeName): void {
    this.chosen = name;
    if (name === "system") preferences.remove(PREFERENCE);
    else preferences.set(PREFERENCE, name);
    this.apply();
  }
}

export const theme = new Theme();
