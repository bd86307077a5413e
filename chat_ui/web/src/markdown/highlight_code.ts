/**
 * Highlights code by highlight.js through lowlight, which returns a tree instead of HTML: the page builds elements from
 * it, so code can never become markup. Runs in the web worker.
 */
import { common, createLowlight } from "lowlight";

/** Plain text, or a span with classes (`hljs-…`) and children. */
export type Highlighted = string | { readonly classes: string; readonly pieces: readonly Highlighted[] };

const lowlight = createLowlight(common);
type Tree = ReturnType<typeof lowlight.highlight>;

/** Returns highlighted code; null for an unknown language. */
export function highlight(code: string, language: string): readonly Highlighted[] | null {
  return lowlight.registered(language) ? lowlight.highlight(language, code).children.flatMap(highlighted) : null;
}

function highlighted(piece: Tree["children"][number]): readonly Highlighted[] {
  if (piece.type === "text") return [piece.value];
  if (piece.type !== "element") return [];
  const names = piece.properties["className"];
  return [{ classes: Array.isArray(names) ? names.join(" ") : "", pieces: piece.children.flatMap(highlighted) }];
}
