/**
 * The blocks of a text that grows, at the price of its end: what comes before the last block is read once and never
 * again. So a frame costs the same at the ten-thousandth word as at the tenth. Knows no screen.
 */
import type { Token, Tokens } from "marked";
import { withBlock, type Group } from "./blocks";
import { isShown, read, toBlock, toBlocks, type Links } from "./render_markdown";

/** A list this long is settled item by item. */
const LONG_LIST = 20;
/** A paragraph of so many characters without an end is cut at a space: models that repeat themselves write them. */
const LONG_PARAGRAPH = 8_000;
const KEPT_OF_PARAGRAPH = 1_000;

export class GrowingMarkdown {
  #settled: readonly Group[] = [];
  #source = "";
  /** Where named links lead, as far as it is settled: a later text may use one. */
  #links: Links = {};

  /** The blocks of `text`, in groups. Cheap if it begins as it did at the last call; `finished`: it will not grow any more. */
  update(text: string, finished: boolean): readonly Group[] {
    const normal = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!normal.startsWith(this.#source)) this.#reset();
    const tail = read(normal.slice(this.#source.length), this.#links);
    // A link may have been written before the line that says where it leads.
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

  /** What of a long block can't change any more is settled; the rest of it is returned. */
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
