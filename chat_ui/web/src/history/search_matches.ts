/** Splits a text at the words of a search, so that matches can be highlighted. */

export interface Piece {
  readonly text: string;
  readonly found: boolean;
}

/** Returns the text in pieces; matches at the beginning of a word, in any case, have `found`. */
export function splitAtMatches(text: string, query: string): Piece[] {
  const words = query.split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return [{ text, found: false }];
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${words.map(literal).join("|")})`, "giu");
  return text
    .split(pattern)
    .map((piece, index) => ({ text: piece, found: index % 2 === 1 }))
    .filter((piece) => piece.text !== "");
}

function literal(word: string): string {
  return word.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}
