/**
 * What jsdom has not and the page uses: sizes never change there, no media query matches, nothing scrolls, and a dialog or
 * popover is open without being on top; what a second thread does is done in the only one. Waits are for conditions, and
 * long enough for a busy machine. For tests only.
 */
import { configure } from "@testing-library/svelte";
import { vi } from "vitest";
import { perform, type Asked } from "./markdown/drawing_tasks";

class NoResizes implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

class OnlyThread extends EventTarget {
  postMessage({ id, task }: Asked): void {
    void perform(task).then((done) => this.dispatchEvent(new MessageEvent("message", { data: { id, done } })));
  }
  terminate(): void {}
}

const nothing = { matches: false, addEventListener: vi.fn(), removeEventListener: vi.fn() };

configure({ asyncUtilTimeout: 20_000 });
vi.stubGlobal("ResizeObserver", NoResizes);
vi.stubGlobal("Worker", OnlyThread);
vi.stubGlobal("matchMedia", () => nothing);
vi.stubGlobal("scrollTo", () => undefined);

/** Tells that a popover is about to open or close, and, as browsers do, a little later that it has. */
function toggled(popover: HTMLElement, newState: "open" | "closed"): void {
  popover.dispatchEvent(Object.assign(new Event("beforetoggle"), { newState }));
  setTimeout(() => popover.dispatchEvent(Object.assign(new Event("toggle"), { newState })));
}
HTMLElement.prototype.showPopover ??= function (): void {
  toggled(this, "open");
};
HTMLElement.prototype.hidePopover ??= function (): void {
  toggled(this, "closed");
};
document.addEventListener("click", ({ target }) => {
  const button = target instanceof Element ? target.closest("[popovertarget]") : null;
  if (button) document.getElementById(button.getAttribute("popovertarget") ?? "")?.showPopover();
});

HTMLDialogElement.prototype.showModal ??= function (): void {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (): void {
  this.open = false;
};
