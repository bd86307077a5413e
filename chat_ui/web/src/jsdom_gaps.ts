/**
 * What jsdom has not and the page uses: sizes never change there, no media query matches, nothing scrolls, and a dialog
 * is open without being on top. For tests only.
 */
import { vi } from "vitest";

class NoResizes implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

const nothing = { matches: false, addEventListener: vi.fn(), removeEventListener: vi.fn() };

vi.stubGlobal("ResizeObserver", NoResizes);
vi.stubGlobal("matchMedia", () => nothing);
vi.stubGlobal("scrollTo", () => undefined);

HTMLDialogElement.prototype.showModal ??= function (): void {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (): void {
  this.open = false;
};
