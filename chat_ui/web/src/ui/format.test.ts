import { afterEach, expect, it, vi } from "vitest";
import { count, day, dayOfUtc, duration, moment, money, percent, perMillion } from "./format";
import { language } from "./messages/language.svelte";

afterEach(() => language.choose(null));

it.each([
  [0, "$0"],
  [1_500_000_000, "$1.50"],
  [1_234_567_000_000, "$1,234.57"],
  [99_000_000, "$0.099"],
  [12_345, "$0.000012"],
  [1, "$0.000000001"],
  [-50_000_000, "-$0.05"],
])("formats %i nano-USD so that it differs from nothing", (nano, text) => {
  expect(money(nano).replace(/\.00$/, "")).toBe(text);
});

it("formats prices of a million tokens, counts and shares", () => {
  expect([perMillion(150), perMillion(2_500), count(12_345), percent(0.256)]).toEqual(["$0.15", "$2.50", "12,345", "26%"]);
});

it("formats a UTC day equally in every time zone", () => {
  expect(dayOfUtc("2026-11-21")).toBe("Nov 21, 2026");
});

it("formats local times, and follows the language", () => {
  const noon = new Date(2026, 10, 21, 12, 30).getTime() / 1000;
  expect([day(noon), moment(noon)]).toEqual(["Nov 21, 2026", expect.stringMatching(/^Nov 21, 2026, 12:30\sPM$/)]);
  language.choose("pl");
  expect([day(noon), count(12_345).replace(/\s/, " ")]).toEqual(["21 lis 2026", "12 345"]);
});

it("formats as in the browser's country", () => {
  vi.spyOn(navigator, "languages", "get").mockReturnValue(["en-GB", "en"]);
  language.choose("en");
  const noon = new Date(2026, 10, 21, 12, 30).getTime() / 1000;
  expect([dayOfUtc("2026-11-21"), day(noon), moment(noon)]).toEqual(["21 Nov 2026", "21 Nov 2026", "21 Nov 2026, 12:30"]);
});

it("formats durations by their largest unit", () => {
  expect([0.2, 50, 300, 10_800].map(duration)).toEqual(["1 second", "50 seconds", "5 minutes", "3 hours"]);
});
