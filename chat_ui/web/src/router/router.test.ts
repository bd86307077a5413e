import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Router } from "./router.svelte";

let stop: () => void;
let router: Router;

beforeEach(() => {
  history.replaceState(null, "", "/");
  document.body.innerHTML =
    '<a id="in" href="/usage"><b>in</b></a><a id="out" href="https://example.org/usage">out</a>' +
    '<a id="file" href="/usage" download>file</a><a id="part" href="#content">part</a><a id="api" href="/api/export">api</a>';
  router = new Router();
  stop = router.listen();
});
afterEach(() => stop());

function click(id: string, init: MouseEventInit = {}): boolean {
  const target = document.getElementById(id)?.firstElementChild ?? document.getElementById(id);
  return target?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ...init })) ?? true;
}

it("follows links of the page, and comes back", async () => {
  expect(click("in")).toBe(false);
  expect(router.route).toEqual({ name: "usage" });
  expect(location.pathname).toBe("/usage");
  history.back();
  await vi.waitFor(() => expect(router.route).toEqual({ name: "chat", conversation: null }));
});

it("leaves to the browser what is the browser's", () => {
  addEventListener("click", (event) => event.preventDefault(), { once: true }); // jsdom can't go anywhere
  expect(["out", "file", "part", "api"].map((id) => (click(id), router.route.name))).toEqual(Array(4).fill("chat"));
  click("in", { ctrlKey: true });
  expect(router.route.name).toBe("chat");
});
