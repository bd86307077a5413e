import { expect, it } from "vitest";
import { codeElements } from "./code_elements";
import { highlight } from "./highlight_code";

it("highlights code in elements and keeps its text", () => {
  const code = 'def f(x):\n    return "<img src=x onerror=alert(1)>"\n';
  const box = document.createElement("div");
  box.append(codeElements(highlight(code, "python") ?? []));
  expect(box.textContent).toBe(code);
  expect(box.querySelector(".hljs-keyword")?.textContent).toBe("def");
  expect(box.querySelector("img")).toBeNull();
});

it("accepts the short language names that models use, and no unknown ones", () => {
  expect([highlight("x", "py"), highlight("x", "ts"), highlight("x", "sh")].every((made) => made !== null)).toBe(true);
  expect([highlight("x", '"><img'), highlight("x", "constructor")]).toEqual([null, null]);
});
