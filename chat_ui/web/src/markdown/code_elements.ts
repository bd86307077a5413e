/** Builds DOM elements of highlighted code: text nodes and class names only, never markup. */
import type { Highlighted } from "./highlight_code";
import "./code_colours.css";

export function codeElements(pieces: readonly Highlighted[]): DocumentFragment {
  return append(document.createDocumentFragment(), pieces);
}

function append<T extends Node>(parent: T, pieces: readonly Highlighted[]): T {
  for (const piece of pieces) {
    if (typeof piece === "string") {
      parent.appendChild(document.createTextNode(piece));
    } else {
      const span = document.createElement("span");
      span.className = piece.classes;
      parent.appendChild(append(span, piece.pieces));
    }
  }
  return parent;
}
