/**
 * What jsdom has not and the page uses: sizes never change there, no media query matches, nothing scrolls, and a dialog
 * is open without being on top; what a second thread does is done in the only one. Waits are for conditions, and long enough for a busy machine. For tests only.
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

HTMLDialogElement.prototype.showModal ??= function (): void {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (): void {
  this.open = false;
};
