/**
 * Marked extension that finds LaTeX in Markdown: inline `$…$` and `\(…\)`, display `$$…$$` and `\[…\]`. Every pattern
 * has a length limit, so that a text full of opening marks stays cheap.
 */
import type { MarkedExtension, TokenizerAndRendererExtension, Tokens } from "marked";

const BLOCK = /^ {0,3}(?:\$\$([^$]{1,8000}?)\$\$|\\\[([\s\S]{1,8000}?)\\\])[ \t]*(?:\n+|$)/;
/** Marked searches it in what follows a paragraph's first character, where only a line break begins a line. */
const BLOCK_START = /\n {0,3}(?:\$\$|\\\[)/;
const INLINE_START = /\$|\\[([]/;
/** A dollar sign next to a space, or a closing one before a digit, is a currency sign ("from $5 to $10"). */
const INLINE: readonly { pattern: RegExp; display: boolean }[] = [
  { pattern: /^\$\$([^$]{1,2000}?)\$\$/, display: true },
  { pattern: /^\$(?![\s$])((?:\\[^\n]|[^\\$\n]){1,1000}?)(?<!\s)\$(?!\d)/, display: false },
  { pattern: /^\\\(([^\n]{1,1000}?)\\\)/, display: false },
  { pattern: /^\\\[([\s\S]{1,2000}?)\\\]/, display: true },
];

function render(token: Tokens.Generic, escape: (text: string) => string): string {
  const { tex, display } = token as Tokens.Generic & { tex: string; display: boolean };
  return `<code class="math${display ? " display" : ""}">${escape(tex)}</code>`;
}

/** Returns the extension for marked; `escape` escapes text for HTML. */
export function mathSyntax(escape: (text: string) => string): MarkedExtension {
  const block: TokenizerAndRendererExtension = {
    name: "mathBlock",
    level: "block",
    start: (source) => BLOCK_START.exec(source)?.index,
    tokenizer(source) {
      const found = BLOCK.exec(source);
      if (found === null) return undefined;
      return { type: "mathBlock", raw: found[0], tex: (found[1] ?? found[2] ?? "").trim(), display: true };
    },
    renderer: (token) => `<p>${render(token, escape)}</p>`,
  };
  const inline: TokenizerAndRendererExtension = {
    name: "math",
    level: "inline",
    start: (source) => INLINE_START.exec(source)?.index,
    tokenizer(source) {
      for (const { pattern, display } of INLINE) {
        const found = pattern.exec(source);
        if (found !== null) return { type: "math", raw: found[0], tex: (found[1] ?? "").trim(), display };
      }
      return undefined;
    },
    renderer: (token) => render(token, escape),
  };
  return { extensions: [block, inline] };
}
