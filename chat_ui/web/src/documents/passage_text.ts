/** Joins passages of a document, which overlap, to its text, with one of them marked. */
import type { DocumentPassage } from "../api/types";

export interface TextPart {
  readonly text: string;
  readonly marked: boolean;
}

/** Text of a passage without what the one before it has, and the page if it is another one than before. */
export interface Section {
  readonly number: number;
  readonly page: number | null;
  /** Whether the text goes on where that of the section before ends. */
  readonly follows: boolean;
  readonly parts: readonly TextPart[];
}

/** Returns the sections of consecutive passages; what the passage `cited` has is marked. */
export function toSections(passages: readonly DocumentPassage[], cited: number | null): Section[] {
  const range = passages.find(({ number }) => number === cited);
  const sections: Section[] = [];
  let [end, page]: [number, number | null] = [-1, null];
  for (const passage of passages) {
    const start = Math.max(passage.start, end);
    if (start >= passage.end) continue;
    const characters = Array.from(passage.text); // offsets count Unicode characters
    const cut = (from: number, until: number): string =>
      characters.slice(Math.max(from, start) - passage.start, Math.max(Math.min(until, passage.end), start) - passage.start).join("");
    const [from, until] = range === undefined ? [passage.end, passage.end] : [range.start, range.end];
    const parts = [
      { text: cut(start, Math.min(from, passage.end)), marked: false },
      { text: cut(from, until), marked: true },
      { text: cut(Math.max(until, start), passage.end), marked: false },
    ].filter(({ text }) => text !== "");
    sections.push({ number: passage.number, page: passage.page === page ? null : passage.page, follows: end === start, parts });
    [end, page] = [passage.end, passage.page];
  }
  return sections;
}
