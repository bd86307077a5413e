/** Preferences of the page's appearance in local storage. Must never hold tokens or other secrets. */
import { Memory } from "./memory";

export const preferences = new Memory(() => localStorage, "headrace.");
