import { expect, it } from "vitest";
import { splitAtMatches } from "./search_matches";

const found = (text: string, query: string): string[] =>
  splitAtMatches(text, query)
    .filter((piece) => piece.found)
    .map((piece) => piece.text);

it("marks the beginnings of words in any case, and loses no text", () => {
  const pieces = splitAtMatches("Milling the mill, not a windmill", "mill");
  expect(pieces.map(({ text }) => text).join("")).toBe("Milling the mill, not a windmill");
  expect(found("Milling the mill, not a windmill", "mill")).toEqual(["Mill", "mill"]);
});

it("takes each word of the query literally", () => {
  expect(found("a.b axb (c+ Łódź", "a.b (c+ łó")).toEqual(["a.b", "(c+", "Łó"]);
});

it("marks nothing without a query", () => {
  expect(splitAtMatches("text", "  ")).toEqual([{ text: "text", found: false }]);
});
