/** What jsdom has not and the page uses: sizes never change there, and no media query matches. For tests only. */
import { vi } from "vitest";

class NoResizes implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

const nothing = { matches: false, addEventListener: vi.fn(), removeEventListener: vi.fn() };

vi.stubGlobal("ResizeObserver", NoResizes);
vi.stubGlobal("matchMedia", () => nothing);
