/**
 * Renders a model's Markdown to safe HTML. Three independent protections against scripts: the renderer escapes raw HTML,
 * the rendered HTML is sanitised by an allow-list, and the page's security policy forbids inline scripts.
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
 * Returns the top-level tokens of a text, in order; their `raw` joined is the text, with \n for every line break.
 * `known`: link reference definitions before this text.
 */
export function read(markdown: string, known: Links = {}): TokensList {
  const lexer = new Lexer(marked.defaults);
  lexer.tokens.links = { ...known };
  return lexer.lex(markdown);
}

/** Returns the blocks of a text, which may be incomplete. */
export function toBlocks(markdown: string): Block[] {
  return read(markdown).filter(isShown).map((token) => toBlock(token));
}

/** Whether a token is visible: neither space between blocks nor a link reference definition. */
export function isShown(token: Token): boolean {
  return token.type !== "space" && token.type !== "def";
}

/** Returns a token as a block. `growing`: the token is the last one of an incomplete text. */
export function toBlock(token: Token, growing = false): Block {
  if (!isCode(token)) return { type: "html", html: sanitise(marked.parser([token])) };
  const language = (token.lang ?? "").split(/\s/)[0] ?? "";
  return { type: "code", language, code: token.text, open: growing && !CLOSED_FENCE.test(token.raw) };
}

function isCode(token: Token): token is Tokens.Code {
  return token.type === "code";
}

/** Returns HTML with text markup and links to http, https and mailto only. */
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

/** Returns an image as a link that names its host: loading it could send data to a host that the model chose. */
function imageAsLink(href: string, name: string): string {
  if (!SAFE_ADDRESS.test(href) || !URL.canParse(href)) return escapeHtml(name);
  const label = texts.imageLink(name, new URL(href).host);
  return `<a href="${escapeHtml(href)}">${escapeHtml(label)}</a>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Returns a Markdown text as plain text, to be read out by screen readers. */
export function toPlainText(markdown: string): string {
  const page = new DOMParser().parseFromString(sanitise(marked.parser(marked.lexer(markdown))), "text/html");
  return (page.body.textContent ?? "").replace(/\s+/g, " ").trim();
}
