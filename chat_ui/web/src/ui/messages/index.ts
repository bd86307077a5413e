/**
 * The texts in the person's language. What shows one is shown anew when another language is chosen:
 * reading `texts.x` reads the choice too.
 */
import { en, type Messages } from "./en";
import { language } from "./language.svelte";

export const texts: Messages = new Proxy(en, { get: (_english, key) => Reflect.get(language.messages, key) as unknown });
