import { expect, it } from "vitest";
import { en } from "./en";
import { texts } from "./index";
import { choose, Language, variant } from "./language.svelte";
import { pl } from "./pl";

const PARTS = { en: import.meta.glob("./en/*.ts", { eager: true }), pl: import.meta.glob("./pl/*.ts", { eager: true }) };

/** `a.b` of every text, and how many values it takes. */
function keys(value: unknown, path = ""): string[] {
  if (typeof value === "function") return [`${path}(${value.length})`];
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([name, inner]) => keys(inner, path === "" ? name : `${path}.${name}`));
}

it("has the same texts in both languages, without name clashes between parts", () => {
  expect(keys(pl).sort()).toEqual(keys(en).sort());
  const inParts = Object.entries(PARTS.en).filter(([file]) => !file.endsWith("/index.ts"));
  const names = inParts.flatMap(([, module]) => Object.values(module as object).flatMap((part) => Object.keys(part as object)));
  expect(names).toHaveLength(new Set(names).size);
  expect(Object.keys(PARTS.pl).map((file) => file.replace("pl", "en"))).toEqual(Object.keys(PARTS.en));
});

it("has no empty text", () => {
  const empty = (value: unknown): boolean =>
    typeof value === "object" && value !== null ? Object.values(value).some(empty) : value === "";
  expect([empty(en), empty(pl)]).toEqual([false, false]);
});

it("chooses the first preferred language that is available", () => {
  expect(choose(["de-DE", "pl-PL", "en"])).toBe(pl);
  expect(choose(["de"])).toBe(en);
});

it("formats as in the browser's country where that speaks the page's language", () => {
  expect(variant("en", ["pl-PL", "en-GB", "en-US"])).toBe("en-GB");
  expect([variant("en", ["de-DE", "en"]), variant("pl", ["en-GB"])]).toEqual(["en", "pl"]);
});

it("uses and stores the chosen language", () => {
  expect(texts.locale).toBe("en");
  const language = new Language();
  language.choose("pl");
  expect([language.messages.locale, new Language().messages.locale]).toEqual(["pl", "pl"]);
  language.choose(null);
  expect(new Language().messages.locale).toBe("en");
});

it("has plural forms in both languages", () => {
  expect(en.tokensUsed("1", "1", 1)).toBe("1 in · 1 token out");
  expect([1, 3, 5, 22].map((count) => pl.tokensUsed("1", String(count), count).split(" ").at(-1))).toEqual([
    "token",
    "tokeny",
    "tokenów",
    "tokeny",
  ]);
});
