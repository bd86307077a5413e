import { describe, expect, it } from "vitest";
import { toBlocks, toPlainText } from "./render_markdown";

function render(markdown: string): HTMLElement {
  const box = document.createElement("div");
  box.innerHTML = toBlocks(markdown)
    .map((block) => (block.type === "html" ? block.html : ""))
    .join("");
  return box;
}

describe("toBlocks", () => {
  it("renders text markup", () => {
    const box = render("# T\n\n**b** `c`\n\n3. x\n\n|a|\n|-:|\n|1|\n\n- [x] done");
    expect(box.querySelector("h1")?.textContent).toBe("T");
    expect(box.querySelector("strong")?.textContent).toBe("b");
    expect(box.querySelector("ol")?.getAttribute("start")).toBe("3");
    expect(box.querySelector("td")?.getAttribute("align")).toBe("right");
    expect(box.textContent).toContain("☑ done");
  });

  it("separates code, also with an open fence, and takes one word as its language", () => {
    expect(toBlocks("```py x\na < b\n")).toEqual([{ type: "code", language: "py", code: "a < b", open: false }]);
  });

  it("keeps earlier blocks unchanged while a text grows", () => {
    const [first] = toBlocks("One.\n\nTw");
    expect(toBlocks("One.\n\nTwo *three*")[0]).toEqual(first);
  });

  it.each([
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '<iframe srcdoc="<script>alert(1)</script>">',
    "<svg onload=alert(1)>",
    "a <b onclick=alert(1)>b</b>",
    "<style>*{background:url(//evil.example)}</style>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
    '![x](https://evil.example/?q=1" onerror="alert(1))',
    "![x](data:image/svg+xml,a)",
    '[x](https://ok.example "t\\" onmouseover=alert(1)")',
  ])("makes no element of raw HTML and loads nothing: %s", (markdown) => {
    const box = render(markdown);
    expect(box.querySelector("img, script, iframe, svg, style, math, b, [onclick], [onerror], [onmouseover], [src]")).toBeNull();
  });

  it.each([
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java&#10;script:alert(1)",
    "&#106;avascript:alert(1)",
    "vbscript:x",
    "data:text/html,x",
    "/v1/models",
    "//evil.example",
  ])("links nowhere for %s", (address) => {
    expect(render(`[x](<${address}>)`).querySelector("[href]")).toBeNull();
  });

  it("opens links in a new tab, and shows an image as a link that names its host", () => {
    const link = render("![cat](https://evil.example/cat.png?q=secret)").querySelector("a");
    expect(link?.textContent).toBe("Image: cat (evil.example)");
    expect(link?.rel).toBe("noopener noreferrer nofollow");
    expect(link?.target).toBe("_blank");
  });
});

it("converts Markdown to plain text", () => {
  expect(toPlainText("**Hi** [you](https://a.example)\n\n- one <b>")).toBe("Hi you one <b>");
});
