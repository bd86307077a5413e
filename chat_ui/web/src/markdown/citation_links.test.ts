import { expect, it } from "vitest";
import { linkCitations } from "./citation_links";

const LINKS = new Map([1, 2, 12].map((number) => [number, { href: `/documents/vs/f/${number}`, title: `Source ${number}` }]));

function block(html: string): HTMLElement {
  const element = document.createElement("div");
  element.innerHTML = html;
  return element;
}

it("links the numbers that stand for passages, once", () => {
  const element = block("<p>The rent is 700 euros [1]. Pets [2, 12] and <em>more [3]</em>.</p>");
  for (let times = 0; times < 2; times++) linkCitations(element, LINKS);
  expect(element.textContent).toBe("The rent is 700 euros [1]. Pets [2, 12] and more [3].");
  expect([...element.querySelectorAll("a")].map((link) => [link.textContent, link.getAttribute("href"), link.getAttribute("title")])).toEqual([
    ["1", "/documents/vs/f/1", "Source 1"],
    ["2", "/documents/vs/f/2", "Source 2"],
    ["12", "/documents/vs/f/12", "Source 12"],
  ]);
});

it("leaves code, links and other brackets alone", () => {
  const html = '<p><code>list[1]</code> <a href="https://example.org">[1]</a> [one] [1234] [1.5] [ 1 ]</p>';
  const element = block(html);
  linkCitations(element, LINKS);
  expect(element.innerHTML).toBe(html);
});
