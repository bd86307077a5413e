import { describe, expect, it } from "vitest";
import { IncrementalMarkdown } from "./incremental_markdown";
import { toBlocks } from "./render_markdown";

const SAMPLE = `# Title\r
\r
Some *text* with [a link][r] and $x^2$.

1. one
2. two

   still two

> quoted
lazily

| a | b |
|---|---|
| 1 | 2 |

\`\`\`py
print("x")

# more
\`\`\`

$$
a_b
$$

[r]: https://example.org/

Setext
======

- [x] done
`;

/** Reads `text` as it grows, `step` characters at a time. */
function grown(text: string, step: number) {
  const markdown = new IncrementalMarkdown();
  for (let end = step; end < text.length; end += step) markdown.update(text.slice(0, end), false);
  return markdown.update(text, true).flat();
}

describe("IncrementalMarkdown", () => {
  it.each([1, 3, 7, 50])("gives the blocks of the complete text, %i characters at a time", (step) => {
    expect(grown(SAMPLE, step)).toEqual(toBlocks(SAMPLE));
  });

  it("uses a link's definition that came earlier", () => {
    const markdown = new IncrementalMarkdown();
    markdown.update("[r]: https://example.org/\n\nOne.\n\nTwo.", false);
    const blocks = markdown.update("[r]: https://example.org/\n\nOne.\n\nTwo.\n\n[here][r]", false);
    expect(JSON.stringify(blocks.flat().at(-1))).toContain("https://example.org/");
  });

  it("returns the same objects for finalised blocks", () => {
    const markdown = new IncrementalMarkdown();
    const paragraphs = Array.from({ length: 30 }, (_, number) => `Number ${number}.`).join("\n\n");
    const before = markdown.update(paragraphs, false);
    const after = markdown.update(`${paragraphs} And`, false);
    expect(before.length).toBeGreaterThan(2);
    expect(after.map((group, index) => group === before[index])).toEqual(before.map((group) => group !== before.at(-1)));
    expect(after.flat().slice(0, -1).every((block, index) => block === before.flat()[index])).toBe(true);
  });

  it("starts again with another text", () => {
    const markdown = new IncrementalMarkdown();
    markdown.update("One.\n\nTwo.\n\nThree.", false);
    expect(markdown.update("Other.\n\nText.", false).flat()).toEqual(toBlocks("Other.\n\nText."));
  });

  it("marks code that is still growing", () => {
    const open = (text: string, finished = false) => {
      const block = new IncrementalMarkdown().update(text, finished).flat().at(-1);
      return block?.type === "code" ? block.open : null;
    };
    expect(open("```py\nx")).toBe(true);
    expect(open("```py\nx\n```")).toBe(false);
    expect(open("```py\nx", true)).toBe(false);
  });

  it("finalises a long list in parts, and continues its numbering", () => {
    const text = Array.from({ length: 60 }, (_, index) => `${index + 1}. item`).join("\n");
    const blocks = grown(text, 10);
    const box = document.createElement("div");
    box.innerHTML = blocks.map((block) => (block.type === "html" ? block.html : "")).join("");
    expect(box.querySelectorAll("li")).toHaveLength(60);
    const lists = [...box.querySelectorAll("ol")];
    expect(lists.length).toBeGreaterThan(1);
    expect(lists.reduce((next, list) => (expect(list.start).toBe(next), next + list.children.length), 1)).toBe(61);
  });

  it("cuts an endless paragraph without losing text", () => {
    const text = "word ".repeat(6_000).trim();
    const box = document.createElement("div");
    box.innerHTML = grown(text, 1_000)
      .map((block) => (block.type === "html" ? block.html : ""))
      .join(" ");
    expect(box.textContent?.split(/\s+/).filter((word) => word === "word")).toHaveLength(6_000);
  });
});
