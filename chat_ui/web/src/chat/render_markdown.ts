/**
 * A model's Markdown as HTML that may be shown. Three walls, each enough against a script: raw HTML is off in the
 * renderer, the rendered HTML is sanitised against an allow-list, and the page's policy runs no inline script.
 */
import createDOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { texts } from "../ui/messages";

/** One top-level piece of an answer: while an answer grows only its last block changes. */
export type Block =
  | { readonly type: "code"; readonly language: string; readonly code: string }
  | { readonly type: "html"; readonly html: string };

const SAFE_ADDRESS = /^(?:https?:|mailto:)/i;

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ href, text }) => imageAsLink(href, text),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const purifier = createDOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (element) => {
  if (!element.hasAttribute("href")) return;
  element.setAttribute("target", "_blank");
  element.setAttribute("rel", "noopener noreferrer nofollow");
});

/** The blocks of a text; a text that is still growing is as good as a finished one. */
export function toBlocks(markdown: string): Block[] {
  const tokens = marked.lexer(markdown).filter((token) => token.type !== "space" && token.type !== "def");
  return tokens.map(toBlock);
}

function toBlock(token: Token): Block {
  if (isCode(token)) return { type: "code", language: (token.lang ?? "").split(/\s/)[0] ?? "", code: token.text };
  return { type: "html", html: sanitise(marked.parser([token])) };
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
    ALLOWED_ATTR: ["href", "title", "align", "start"],
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    ALLOWED_URI_REGEXP: SAFE_ADDRESS,
    ADD_URI_SAFE_ATTR: ["align", "start"],
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
