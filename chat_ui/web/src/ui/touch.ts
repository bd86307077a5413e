/**
 * Whether one writes by a keyboard on the screen: then the message field takes the focus only when it is touched, for
 * half of the page would be covered, and Enter begins a line, for there is no Shift+Enter.
 */
import { MediaQuery } from "svelte/reactivity";

export const touch = new MediaQuery("(hover: none) and (pointer: coarse)");
