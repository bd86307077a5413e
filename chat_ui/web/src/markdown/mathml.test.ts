import { expect, it } from "vitest";
import { sanitise } from "./render_formulas";
import { toMathML } from "./mathml";

function drawn(tex: string): HTMLElement {
  const box = document.createElement("div");
  box.appendChild(sanitise(toMathML(tex, false)));
  return box;
}

it.each([
  "\\href{javascript:alert(1)}{x}",
  "\\url{https://evil.example/}",
  "\\includegraphics{https://evil.example/x.png}",
  "\\htmlStyle{background:url(//evil.example)}{x}",
  "\\htmlClass{a}{x}",
  "\\htmlId{app}{x}",
  "<img src=x onerror=alert(1)>",
  "\\text{</math><img src=x onerror=alert(1)>}",
])("makes nothing of %s that could act", (tex) => {
  expect(drawn(tex).querySelector("a, img, script, [href], [src], [style], [class], [id], [onerror]")).toBeNull();
});

it("shows invalid formulas as their source, and stops endless macros", () => {
  expect(drawn("\\frac{").textContent).toContain("\\frac{");
  expect(drawn("\\def\\a{\\a\\a}\\a").textContent).toContain("\\a");
});
