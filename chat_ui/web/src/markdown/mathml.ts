/**
 * Converts LaTeX to MathML by KaTeX. KaTeX's HTML output needs inline styles, which the page's security policy forbids.
 * Runs in the web worker; the page sanitises the result.
 */
import katex from "katex";

/**
 * Returns MathML for `tex`; an invalid formula is shown as its source. Macros with external effects are disabled.
 * `\boxed` and `\pmb` come with an inline style; in KaTeX's output a quote is only ever an attribute's.
 */
export function toMathML(tex: string, display: boolean): string {
  const options = { output: "mathml", displayMode: display, throwOnError: false, trust: false, strict: "ignore" } as const;
  return katex.renderToString(tex, { ...options, maxExpand: 500, maxSize: 20 }).replace(/ style="[^"]*"/g, "");
}
