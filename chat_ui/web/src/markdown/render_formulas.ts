/** Replaces the TeX source of formulas in displayed HTML by MathML. */
import createDOMPurify, { type Config } from "dompurify";
import { renderFormula } from "./worker_client";

/** Number of cached formulas: while an answer grows, its last block is rendered repeatedly. */
const KEPT = 500;
/** Allow-list for MathML. The TeX source in it (`annotation`) is removed with its text. */
const RULES: Config & { RETURN_DOM_FRAGMENT: true } = {
  USE_PROFILES: { mathMl: true },
  ADD_TAGS: ["semantics"],
  FORBID_TAGS: ["annotation", "style"],
  FORBID_CONTENTS: ["annotation", "style"],
  FORBID_ATTR: ["style", "href", "class", "id"],
  RETURN_DOM_FRAGMENT: true,
};

interface Formula {
  /** The MathML; null until it is rendered. */
  drawn: DocumentFragment | null;
  readonly ready: Promise<void>;
}
const formulas = new Map<string, Formula>();
const purifier = createDOMPurify(window);

/** Renders every formula below `box`; cached ones synchronously, so that a growing text does not flicker. */
export function renderFormulas(box: HTMLElement): void {
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
  const formula: Formula = { drawn: null, ready: renderFormula(tex, display).then(keep) };
  formulas.set(key, formula);
  return formula;

  function keep(html: string | null): void {
    if (html !== null) formula.drawn = sanitise(html);
  }
}

/** Returns MathML without scripts, links, styles, classes and ids. */
export function sanitise(html: string): DocumentFragment {
  return purifier.sanitize(html, RULES);
}
