import { expect, it } from "vitest";
import type { DocumentPassage } from "../api/types";
import { toSections } from "./passage_text";

/** A text of characters that UTF-16 has in two units, one per decimal digit. */
const TEXT = "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗";

function passage(number: number, start: number, end: number, page: number | null = null): DocumentPassage {
  return { number, start, end, page, heading_path: [], text: Array.from(TEXT).slice(start, end).join("") };
}

function plain(passages: DocumentPassage[], cited: number | null): string[] {
  return toSections(passages, cited).map(({ parts }) => parts.map(({ text, marked }) => (marked ? `[${text}]` : text)).join(""));
}

it("joins overlapping passages, and marks the cited one where its neighbours have it", () => {
  const passages = [passage(4, 0, 5), passage(5, 3, 8), passage(6, 7, 10)];
  expect(plain(passages, 5)).toEqual(["𝟎𝟏𝟐[𝟑𝟒]", "[𝟓𝟔𝟕]", "𝟖𝟗"]);
  expect(plain(passages, 4)).toEqual(["[𝟎𝟏𝟐𝟑𝟒]", "𝟓𝟔𝟕", "𝟖𝟗"]);
  expect(plain(passages, 6)).toEqual(["𝟎𝟏𝟐𝟑𝟒", "𝟓𝟔[𝟕]", "[𝟖𝟗]"]);
  expect(plain(passages, null)).toEqual(["𝟎𝟏𝟐𝟑𝟒", "𝟓𝟔𝟕", "𝟖𝟗"]);
});

it("leaves out a passage that the one before has, and says where text is missing between two", () => {
  const sections = toSections([passage(0, 0, 5), passage(1, 2, 5), passage(2, 5, 6), passage(3, 8, 9)], 1);
  expect(sections.map(({ number, follows }) => [number, follows])).toEqual([
    [0, false],
    [2, true],
    [3, false],
  ]);
});

it("names each page once", () => {
  const sections = toSections([passage(0, 0, 2, 1), passage(1, 2, 4, 1), passage(2, 4, 6, 3)], null);
  expect(sections.map(({ page }) => page)).toEqual([1, null, 3]);
});
