/**
 * Whether the device has a touch screen and an on-screen keyboard. Then the message field takes the focus only when it
 * is touched, because the keyboard covers half of the page, and Enter starts a new line, as there is no Shift+Enter.
 */
import { MediaQuery } from "svelte/reactivity";

export const touch = new MediaQuery("(hover: none) and (pointer: coarse)");
