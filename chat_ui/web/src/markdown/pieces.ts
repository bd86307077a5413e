/** Long code in pieces of whole lines, so that a line at the end is all that changes while it grows. */

const LINES = 40;

/** The pieces, without the line end between two of them: each piece is a block of its own on the screen. */
export function inPieces(code: string): string[] {
  const lines = code.split("\n");
  const pieces: string[] = [];
  for (let start = 0; start < lines.length; start += LINES) pieces.push(lines.slice(start, start + LINES).join("\n"));
  return pieces;
}
