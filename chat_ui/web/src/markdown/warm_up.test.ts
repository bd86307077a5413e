import { expect, it, vi } from "vitest";

it("warms up worker and parser at the first call, when idle", async () => {
  const idle: IdleRequestCallback[] = [];
  vi.stubGlobal("requestIdleCallback", (callback: IdleRequestCallback) => idle.push(callback));
  const posted = vi.spyOn(globalThis.Worker.prototype, "postMessage");
  const reading = await import("./render_markdown");
  const read = vi.spyOn(reading, "toBlocks");
  const { prepare } = await import("./warm_up");
  prepare();
  prepare();
  expect(posted).toHaveBeenCalledExactlyOnceWith({ id: 1, task: { type: "prepare" } });
  expect(read).not.toHaveBeenCalled();
  for (let next = idle.shift(); next; next = idle.shift()) next({ didTimeout: false, timeRemaining: () => 10 });
  expect(read).toHaveBeenCalledTimes(4);
});
