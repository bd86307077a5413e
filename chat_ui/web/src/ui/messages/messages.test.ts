import { expect, it } from "vitest";
import { choose } from "./index";
import { en } from "./en";
import { pl } from "./pl";

it("chooses the first language that we have", () => {
  expect(choose(["de-DE", "pl-PL", "en"])).toBe(pl);
  expect(choose(["de"])).toBe(en);
});

it("counts in both languages", () => {
  expect(en.usage("1", "1", 1)).toBe("1 in · 1 token out");
  expect([1, 3, 5, 22].map((count) => pl.usage("1", String(count), count).split(" ").at(-1))).toEqual([
    "token",
    "tokeny",
    "tokenów",
    "tokeny",
  ]);
});

it("leaves no text empty", () => {
  const texts = [en, pl].flatMap((language) => [...Object.values(language), ...Object.values(language.failures)]);
  expect(texts.filter((text) => text === "")).toEqual([]);
});
