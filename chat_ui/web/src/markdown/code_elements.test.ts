import { expect, it } from "vitest";
import { codeElements } from "./code_elements";

it("builds nested spans, and shows markup as text", () => {
  const box = document.createElement("div");
  const call = { classes: "hljs-title function_", pieces: ["f", { classes: "hljs-params", pieces: ["(x)"] }] };
  box.append(codeElements(["<b>", call, "</script>"]));
  expect(box.textContent).toBe("<b>f(x)</script>");
  expect(box.querySelector("b")).toBeNull();
  expect(box.querySelector("span.hljs-title.function_ > span.hljs-params")?.textContent).toBe("(x)");
});
