import { Marked } from "marked";
import { expect, it } from "vitest";
import { mathSyntax } from "./math_syntax";

const marked = new Marked();
marked.use(mathSyntax((text) => text.replace(/</g, "&lt;")));
const html = (markdown: string): string => (marked.parse(markdown) as string).trim();

it.each([
  ["$x+1$", '<code class="math">x+1</code>'],
  ["\\(x\\)", '<code class="math">x</code>'],
  ["a $$y$$ b", 'a <code class="math display">y</code> b'],
  ["a \\[y\\] b", 'a <code class="math display">y</code> b'],
  ["$a<b$", '<code class="math">a&lt;b</code>'],
])("finds the formula of %s in a line", (markdown, expected) => {
  expect(html(markdown)).toBe(`<p>${expected}</p>`);
});

it("begins a new paragraph at a formula in a line of its own", () => {
  expect(html("a\n$$y$$\nb")).toBe('<p>a</p>\n<p><code class="math display">y</code></p><p>b</p>');
});

it("finds formulas that stand in paragraphs of their own", () => {
  const display = '<p><code class="math display">x\n= 1</code></p>';
  expect(html("One\n\n$$\nx\n= 1\n$$\n\ntwo")).toContain(display);
  expect(html("\\[\nx\n= 1\n\\]")).toContain(display);
});

it.each(["from $5 to $10", "$ x $", "costs 5$", "`$x$`", "$unclosed", "\\(a\nb\\)"])("leaves %s alone", (markdown) => {
  expect(html(markdown)).not.toContain("math");
});

it("is quick with a text full of openings", () => {
  const started = performance.now();
  html("$a \\( \\[ $$ ".repeat(3000));
  expect(performance.now() - started).toBeLessThan(20_000);
});
