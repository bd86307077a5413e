/** Makes links of the numbers in brackets by which an answer cites passages of documents. */

export interface CitationLink {
  readonly href: string;
  /** What the number stands for, in words. */
  readonly title: string;
}

const MARKER = /\[(\d{1,3}(?:\s?,\s?\d{1,3}){0,7})\]/g;
/** Where brackets mean something else. */
const LEFT_ALONE = "a, code, pre, math";

/** Replaces the numbers that `links` has, within the elements of a rendered block. Repeatable. */
export function linkCitations(block: HTMLElement, links: ReadonlyMap<number, CitationLink>): void {
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (node instanceof Text && parent !== null && parent !== block && parent.closest(LEFT_ALONE) === null) found.push(node);
  }
  for (const node of found) {
    const parts = [...linked(node.data, links)];
    if (parts.some((part) => typeof part !== "string")) node.replaceWith(...parts);
  }
}

function* linked(text: string, links: ReadonlyMap<number, CitationLink>): Generator<string | HTMLElement> {
  let end = 0;
  for (const marker of text.matchAll(MARKER)) {
    yield text.slice(end, marker.index);
    for (const part of marker[0].split(/(\d+)/)) {
      const link = links.get(Number(part));
      yield link === undefined || part === "" ? part : anchor(part, link);
    }
    end = marker.index + marker[0].length;
  }
  yield text.slice(end);
}

function anchor(number: string, { href, title }: CitationLink): HTMLElement {
  const link = document.createElement("a");
  link.className = "citation";
  link.href = href;
  link.title = title;
  link.ariaLabel = title;
  link.textContent = number;
  return link;
}
