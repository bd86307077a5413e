/** Puts drawn formulas in the place of their source, in HTML that is on the screen. */
import createDOMPurify, { type Config } from "dompurify";
import { typeset } from "./drawing";

/** Formulas kept: while an answer grows its last block is drawn again and again. */
const KEPT = 500;
/** What MathML there may be. The TeX source beside it (`annotation`) goes, with its text. */
const RULES: Config & { RETURN_DOM_FRAGMENT: true } = {
  USE_PROFILES: { mathMl: true },
  ADD_TAGS: ["semantics"],
  FORBID_TAGS: ["annotation", "style"],
  FORBID_CONTENTS: ["annotation", "style"],
  FORBID_ATTR: ["style", "href", "class", "id"],
  RETURN_DOM_FRAGMENT: true,
};

interface Formula {
  /** Null until it is drawn. */
  drawn: DocumentFragment | null;
  readonly ready: Promise<void>;
}
const formulas = new Map<string, Formula>();
const purifier = createDOMPurify(window);

/** Draws every formula below `box`; one that was drawn before at once, so that a growing text does not flicker. */
export function drawFormulas(box: HTMLElement): void {
  for (const source of box.querySelectorAll<HTMLElement>("code.math")) {
    const formula = formulaOf(source.textContent ?? "", source.classList.contains("display"));
    if (formula.drawn) put(formula, source);
    else void formula.ready.then(() => put(formula, source));
  }
}

function put({ drawn }: Formula, source: HTMLElement): void {
  if (drawn) source.replaceWith(drawn.cloneNode(true));
}

function formulaOf(tex: string, display: boolean): Formula {
  const key = `${display ? "D" : "I"}${tex}`;
  const known = formulas.get(key);
  if (known) return known;
  if (formulas.size >= KEPT) formulas.clear();
  const formula: Formula = { drawn: null, ready: typeset(tex, display).then(keep) };
  formulas.set(key, formula);
  return formula;

  function keep(html: string | null): void {
    if (html !== null) formula.drawn = sanitise(html);
  }
}

/** MathML, with nothing left in it that could act. */
export function sanitise(html: string): DocumentFragment {
  return purifier.sanitize(html, RULES);
}
