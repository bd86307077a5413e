/** Splits long code into chunks of whole lines, so that only the last chunk changes while code grows. */

const LINES = 40;

/** Returns the chunks without the line break between them: each chunk is displayed as a block. */
export function codeChunks(code: string): string[] {
  const lines = code.split("\n");
  const pieces: string[] = [];
  for (let start = 0; start < lines.length; start += LINES) pieces.push(lines.slice(start, start + LINES).join("\n"));
  return pieces;
}
