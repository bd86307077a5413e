/**
 * Code as coloured pieces, by highlight.js through lowlight, which gives a tree and no HTML: the page makes elements of
 * it, so code can never become markup. Runs in the page's second thread.
 */
import { common, createLowlight } from "lowlight";

/** Plain text, or pieces that have classes (`hljs-…`) in common. */
export type Coloured = string | { readonly classes: string; readonly pieces: readonly Coloured[] };

const lowlight = createLowlight(common);
type Tree = ReturnType<typeof lowlight.highlight>;

/** Null for a language that is not known here. */
export function colour(code: string, language: string): readonly Coloured[] | null {
  return lowlight.registered(language) ? lowlight.highlight(language, code).children.flatMap(coloured) : null;
}

function coloured(piece: Tree["children"][number]): readonly Coloured[] {
  if (piece.type === "text") return [piece.value];
  if (piece.type !== "element") return [];
  const names = piece.properties["className"];
  return [{ classes: Array.isArray(names) ? names.join(" ") : "", pieces: piece.children.flatMap(coloured) }];
}
