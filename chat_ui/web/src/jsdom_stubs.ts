/**
 * Test setup: stubs for browser APIs that jsdom lacks. Sizes never change, no media query matches, nothing scrolls,
 * dialogs and popovers open without a top layer, and workers run in the main thread. Timeouts suit a busy machine.
 */
import { configure } from "@testing-library/svelte";
import { vi } from "vitest";
import { perform, type WorkerRequest } from "./markdown/worker_tasks";

class NoResizes implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

class OnlyThread extends EventTarget {
  postMessage({ id, task }: WorkerRequest): void {
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

Blob.prototype.text ??= function (): Promise<string> {
  const reader = new FileReader();
  reader.readAsText(this);
  return new Promise((resolve) => reader.addEventListener("load", () => resolve(String(reader.result))));
};

/** Dispatches `beforetoggle` at once and `toggle` in a later task, as browsers do. */
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
