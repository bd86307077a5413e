import { expect, it } from "vitest";
import { asCount, asList, asObject, asText, parseJson } from "./json";

it("returns null for invalid JSON", () => {
  expect(parseJson("{")).toBeNull();
  expect(parseJson('{"a":1}')).toEqual({ a: 1 });
});

it("returns a value only if it has the type", () => {
  expect([asObject([]), asObject("x"), asText(1), asCount(1.5), asCount(-1), asCount(NaN)]).toEqual(Array(6).fill(null));
  expect(asList({ length: 2 })).toEqual([]);
  expect(asCount(0)).toBe(0);
});
