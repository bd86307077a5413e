/** Small choices about how the page looks, kept by the browser. Never anything that lets anybody in. */
import { Memory } from "./memory";

export const preferences = new Memory(() => localStorage, "headrace.");
