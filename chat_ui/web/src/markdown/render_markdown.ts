/**
 * A model's Markdown as HTML that may be shown. Three walls, each enough against a script: raw HTML is off in the
 * renderer, the rendered HTML is sanitised against an allow-list, and the page's policy runs no inline script.
 */
import createDOMPurify from "dompurify";
import { Lexer, Marked, type Token, type Tokens, type TokensList } from "marked";
import { texts } from "../ui/messages";
import type { Block } from "./blocks";
import { mathSyntax } from "./math_syntax";

const SAFE_ADDRESS = /^(?:https?:|mailto:)/i;
const CLOSED_FENCE = /\n {0,3}(?:`{3,}|~{3,})\s*$/;

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ href, text }) => imageAsLink(href, text),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});
marked.use(mathSyntax(escapeHtml));

const purifier = createDOMPurify(window);
const FORMULA_CLASSES = new Set(["math", "math display"]);
purifier.addHook("uponSanitizeAttribute", (_element, attribute) => {
  if (attribute.attrName === "class") attribute.keepAttr = FORMULA_CLASSES.has(attribute.attrValue);
});
purifier.addHook("afterSanitizeAttributes", (element) => {
  if (!element.hasAttribute("href")) return;
  element.setAttribute("target", "_blank");
  element.setAttribute("rel", "noopener noreferrer nofollow");
});

export type Links = TokensList["links"];

/**
 * The top-level tokens of a text, in order; their `raw` put together is the text, with \n for every line end.
 * `known`: where links lead that were named before this text.
 */
export function read(markdown: string, known: Links = {}): TokensList {
  const lexer = new Lexer(marked.defaults);
  lexer.tokens.links = { ...known };
  return lexer.lex(markdown);
}

/** The blocks of a text; a text that is still growing is as good as a finished one. */
export function toBlocks(markdown: string): Block[] {
  return read(markdown).filter(isShown).map((token) => toBlock(token));
}

/** Whether a token is more than space between others or a link's definition. */
export function isShown(token: Token): boolean {
  return token.type !== "space" && token.type !== "def";
}

/** `growing`: the token is the last of a text that goes on. */
export function toBlock(token: Token, growing = false): Block {
  if (!isCode(token)) return { type: "html", html: sanitise(marked.parser([token])) };
  const language = (token.lang ?? "").split(/\s/)[0] ?? "";
  return { type: "code", language, code: token.text, open: growing && !CLOSED_FENCE.test(token.raw) };
}

function isCode(token: Token): token is Tokens.Code {
  return token.type === "code";
}

/** HTML with nothing left but plain text markup and links to http, https and mailto. */
export function sanitise(html: string): string {
  return purifier.sanitize(html, {
    ALLOWED_TAGS: [
      "p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a",
      "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
    ],
    ALLOWED_ATTR: ["href", "title", "align", "start", "class"],
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    ALLOWED_URI_REGEXP: SAFE_ADDRESS,
    ADD_URI_SAFE_ATTR: ["align", "start", "class"],
  });
}

/** An image would be fetched from wherever the model says, and so carry data out: it becomes a link that names the host. */
function imageAsLink(href: string, name: string): string {
  if (!SAFE_ADDRESS.test(href) || !URL.canParse(href)) return escapeHtml(name);
  const label = texts.imageLink(name, new URL(href).host);
  return `<a href="${escapeHtml(href)}">${escapeHtml(label)}</a>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** What is left of a Markdown text when it is read out. */
export function toPlainText(markdown: string): string {
  const page = new DOMParser().parseFromString(sanitise(marked.parser(marked.lexer(markdown))), "text/html");
  return (page.body.textContent ?? "").replace(/\s+/g, " ").trim();
}
