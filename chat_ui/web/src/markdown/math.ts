/**
 * LaTeX as MathML, which browsers draw themselves: KaTeX's HTML needs inline styles, and the page's policy allows none.
 * Runs in the page's second thread; the page sanitises what it makes.
 */
import katex from "katex";

/**
 * MathML for `tex`; a formula that is wrong is shown as it is written. Runs no macro that reaches outside.
 * `\boxed` and `\pmb` come with an inline style; in KaTeX's output a quote is only ever an attribute's.
 */
export function mathML(tex: string, display: boolean): string {
  const options = { output: "mathml", displayMode: display, throwOnError: false, trust: false, strict: "ignore" } as const;
  return katex.renderToString(tex, { ...options, maxExpand: 500, maxSize: 20 }).replace(/ style="[^"]*"/g, "");
}
