import { waitFor } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { renderFormulas, sanitise } from "./render_formulas";

function boxOf(html: string): HTMLElement {
  const box = document.createElement("div");
  box.innerHTML = html;
  return box;
}

it("replaces the source by MathML without the source, and a known formula at once", async () => {
  const box = boxOf('<p>So <code class="math">x^2</code> and <code>y</code>.</p>');
  renderFormulas(box);
  expect(box.querySelector("code.math")?.textContent).toBe("x^2");
  await waitFor(() => expect(box.querySelector("math msup")).not.toBeNull());
  expect(box.querySelector("code.math, annotation")).toBeNull();
  expect(box.querySelector("code")?.textContent).toBe("y");
  const again = boxOf('<code class="math">x^2</code>');
  renderFormulas(again);
  expect(again.querySelector("math")).not.toBeNull();
});

it("distinguishes display and inline formulas", async () => {
  const box = boxOf('<code class="math display">z</code>');
  renderFormulas(box);
  await waitFor(() => expect(box.querySelector("math")?.getAttribute("display")).toBe("block"));
});

it("removes scripts, links, styles and ids", () => {
  const hostile =
    '<math><mi href="javascript:alert(1)" style="x" onclick="alert(1)" id="app">x</mi><script>alert(1)</script>' +
    '<annotation encoding="application/x-tex">x</annotation><mtext><img src=x onerror=alert(1)></mtext></math>';
  const box = document.createElement("div");
  box.append(sanitise(hostile));
  expect(box.querySelector("script, img, annotation")).toBeNull();
  expect(box.querySelector("mi")?.attributes).toHaveLength(0);
});
