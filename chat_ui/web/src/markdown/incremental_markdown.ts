/**
 * Incremental rendering of Markdown that grows: blocks before the last one are parsed once and never again, so an
 * update costs the same at the ten-thousandth word as at the tenth.
 */
import type { Token, Tokens } from "marked";
import { withBlock, type Group } from "./blocks";
import { isShown, read, toBlock, toBlocks, type Links } from "./render_markdown";

/** Items beyond which a list is finalised item by item. */
const LONG_LIST = 20;
/** Characters beyond which a paragraph is cut at a space: models in a repetition loop write such paragraphs. */
const LONG_PARAGRAPH = 8_000;
const KEPT_OF_PARAGRAPH = 1_000;

export class IncrementalMarkdown {
  #settled: readonly Group[] = [];
  #source = "";
  /** Link reference definitions in the finalised text, which later text may use. */
  #links: Links = {};

  /** Returns the blocks of `text` in groups. Cheap if `text` extends that of the last call; `finished`: it is complete. */
  update(text: string, finished: boolean): readonly Group[] {
    const normal = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!normal.startsWith(this.#source)) this.#reset();
    const tail = read(normal.slice(this.#source.length), this.#links);
    // A link may precede its reference definition, so a complete text with definitions is parsed as a whole.
    if (finished && Object.keys(tail.links).length > 0) return toBlocks(normal).reduce<readonly Group[]>(withBlock, []);
    const last = tail.findLastIndex(isShown);
    this.#settle(tail.slice(0, Math.max(last, 0)));
    const growing = tail[last];
    if (growing === undefined) return this.#settled;
    const rest = finished ? growing : this.#settlePartOf(growing);
    return withBlock(this.#settled, toBlock(rest, !finished));
  }

  #reset(): void {
    this.#settled = [];
    this.#source = "";
    this.#links = {};
  }

  #settle(tokens: readonly Token[]): void {
    for (const token of tokens) {
      this.#source += token.raw;
      if (isDefinition(token)) this.#links[token.tag] ??= { href: token.href, title: token.title };
      else if (isShown(token)) this.#settled = withBlock(this.#settled, toBlock(token));
    }
  }

  /** Finalises the part of a long block that can't change any more, and returns the rest. */
  #settlePartOf(token: Token): Token {
    if (isList(token) && token.items.length > LONG_LIST) return this.#cutList(token);
    if (token.type === "paragraph" && token.raw.length > LONG_PARAGRAPH) return this.#cutParagraph(token.raw);
    return token;
  }

  #cutList(list: Tokens.List): Token {
    const kept = list.items.slice(-2);
    const done = list.items.slice(0, -2);
    const raw = done.map((item) => item.raw).join("");
    this.#settle([{ ...list, raw, items: done }]);
    const start = typeof list.start === "number" ? list.start + done.length : list.start;
    return { ...list, raw: list.raw.slice(raw.length), start, items: kept };
  }

  #cutParagraph(raw: string): Token {
    const cut = raw.lastIndexOf(" ", raw.length - KEPT_OF_PARAGRAPH) + 1 || raw.length - KEPT_OF_PARAGRAPH;
    this.#settle(read(raw.slice(0, cut)));
    return read(raw.slice(cut)).find(isShown) ?? { type: "text", raw: "", text: "" };
  }
}

function isList(token: Token): token is Tokens.List {
  return token.type === "list";
}

function isDefinition(token: Token): token is Tokens.Def {
  return token.type === "def";
}
