/** Where the words of a search are in a text, so that they can be shown; plain text in, plain pieces out. */

export interface Piece {
  readonly text: string;
  readonly found: boolean;
}

/** The text in pieces, those that begin a word with one of the search's words marked. Upper case does not count. */
export function inMatches(text: string, query: string): Piece[] {
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
