/**
 * Code as coloured pieces, by highlight.js through lowlight, which gives a tree and no HTML: the elements are made here,
 * so code can never become markup. Loaded when the first finished piece of code is met.
 */
import { common, createLowlight } from "lowlight";
import "./code_colours.css";

const lowlight = createLowlight(common);
type Tree = ReturnType<typeof lowlight.highlight>;
type Piece = Tree["children"][number];

/** The code with `hljs-…` classes; null for a language that is not known here. */
export function colour(code: string, language: string): DocumentFragment | null {
  if (!lowlight.registered(language)) return null;
  return append(document.createDocumentFragment(), lowlight.highlight(language, code).children);
}

function append<T extends Node>(parent: T, pieces: readonly Piece[]): T {
  for (const piece of pieces) {
    if (piece.type === "text") parent.appendChild(document.createTextNode(piece.value));
    if (piece.type !== "element") continue;
    const span = document.createElement("span");
    span.className = classesOf(piece.properties["className"]);
    parent.appendChild(append(span, piece.children as readonly Piece[]));
  }
  return parent;
}

function classesOf(names: unknown): string {
  return Array.isArray(names) ? names.join(" ") : "";
}
