import { waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, it } from "vitest";
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
  addEventListener("click", stay);
});
afterEach(() => {
  stop();
  removeEventListener("click", stay);
});

/** Heard after the router: jsdom can't go anywhere. */
function stay(event: Event): void {
  event.preventDefault();
}

function click(id: string, init: MouseEventInit = {}): void {
  const target = document.getElementById(id)?.firstElementChild ?? document.getElementById(id);
  target?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ...init }));
}

it("follows links within the page, and goes back", async () => {
  click("in");
  expect(router.route).toEqual({ name: "usage" });
  expect(location.pathname).toBe("/usage");
  history.back();
  await waitFor(() => expect(router.route).toEqual({ name: "chat", conversation: null }));
});

it("leaves other links and modified clicks to the browser", () => {
  expect(["out", "file", "part", "api"].map((id) => (click(id), router.route.name))).toEqual(Array(4).fill("chat"));
  click("in", { ctrlKey: true });
  expect(router.route.name).toBe("chat");
});
