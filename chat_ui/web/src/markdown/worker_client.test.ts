import { expect, it, vi } from "vitest";

class Broken extends EventTarget {
  static made = 0;
  constructor() {
    super();
    Broken.made += 1;
  }
  postMessage(): void {
    queueMicrotask(() => this.dispatchEvent(new Event("error")));
  }
  terminate(): void {}
}

it("starts another worker after the first could not be loaded", async () => {
  vi.resetModules();
  const here = globalThis.Worker;
  vi.stubGlobal("Worker", Broken);
  const { highlight, renderFormula } = await import("./worker_client");
  expect(await Promise.all([highlight("x = 1", "python"), renderFormula("x", false)])).toEqual([null, null]);
  vi.stubGlobal("Worker", here);
  expect(await renderFormula("x", false)).toContain("<math");
  expect(Broken.made).toBe(1);
});
