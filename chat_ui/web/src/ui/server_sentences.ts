/** Translates the server's sentences for people, which are in English, by their texts in both languages. */
import { count } from "./format";
import { texts } from "./messages";
import { en } from "./messages/en";

interface Pattern {
  name: string;
  expression: RegExp;
}

const PATTERNS: readonly Pattern[] = Object.entries(en.serverSentences).map(([name, sentence]) => {
  const escaped = sentence.replace(/[.*+?^$()|[\]\\]/g, String.raw`\$&`).replaceAll("{}", "(.+?)");
  return { name, expression: new RegExp(`^${escaped}$`) };
});
const BETWEEN_SENTENCES = /(?<=\.) (?=\p{Lu})/u;
const NUMBER = /^\d{1,3}(,\d{3})*$/;

/** Returns sentences of the server in the person's language; one that is not known as it is, marked as the server's. */
export function serverText(sentences: string): string {
  if (texts.locale === en.locale) return sentences;
  return sentences.split(BETWEEN_SENTENCES).map((each) => translated(each) ?? texts.serverSaid(each)).join(" ");
}

function translated(text: string): string | null {
  for (const { name, expression } of PATTERNS) {
    const found = expression.exec(text);
    if (found === null) continue;
    const values = found.slice(1);
    return (texts.serverSentences[name] ?? "").replaceAll("{}", () => value(values.shift() ?? ""));
  }
  return null;
}

function value(text: string): string {
  return NUMBER.test(text) ? count(Number(text.replaceAll(",", ""))) : (translated(text) ?? text);
}
