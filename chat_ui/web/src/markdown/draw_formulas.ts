/** Puts drawn formulas in the place of their source, in HTML that is on the screen. */

type Typeset = (tex: string, display: boolean) => Node;
let typeset: Typeset | null = null;

/** Draws every formula below `box`; at once if the typesetter is there already, so that a growing text does not flicker. */
export async function drawFormulas(box: HTMLElement): Promise<void> {
  const formulas = box.querySelectorAll<HTMLElement>("code.math");
  if (formulas.length === 0) return;
  typeset ??= (await import("./math")).typeset;
  for (const formula of formulas) {
    const source = formula.textContent ?? "";
    formula.replaceWith(typeset(source, formula.classList.contains("display")));
  }
}
