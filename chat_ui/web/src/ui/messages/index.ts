/**
 * The page's texts in the person's language. Reading `texts.x` reads the language reactively, so components update when
 * another language is chosen.
 */
import { en, type Messages } from "./en";
import { language } from "./language.svelte";

export const texts: Messages = new Proxy(en, { get: (_english, key) => Reflect.get(language.messages, key) as unknown });
