import { expect, it } from "vitest";
import { formatDollars, formatPrice, parseDollars, parsePrice } from "./dollar_amounts";

it.each([
  ["", null],
  [" 12 ", 12_000_000_000],
  ["$0.5", 500_000_000],
  ["0,000000001", 1],
  ["9000000.123456789", 9_000_000_123_456_789],
])("reads %j as %s", (typed, nano) => {
  expect(parseDollars(typed)).toBe(nano);
  expect(parseDollars(formatDollars(nano))).toBe(nano);
});

it.each(["-1", "1e3", "1.2.3", "1 000", "0.0000000001", "999999999.1", "abc", "∞"])("%j is not an amount", (typed) => {
  expect(parseDollars(typed)).toBeUndefined();
});

it("converts prices per million tokens without rounding", () => {
  for (const [typed, nano] of [["0.15", 150], ["0", 0], ["0,001", 1], ["1000000", 1_000_000_000]] as const) {
    expect(parsePrice(typed)).toBe(nano);
    expect(parsePrice(formatPrice(nano))).toBe(nano);
  }
  for (const typed of ["", "0.0001", "-1", "free"]) expect(parsePrice(typed)).toBeUndefined();
});
