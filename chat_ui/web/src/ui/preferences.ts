/** Preferences of the page's appearance in local storage. Must never hold tokens or other secrets. */
import { WebStorage } from "./web_storage";

export const preferences = new WebStorage(() => localStorage, "headrace.");
