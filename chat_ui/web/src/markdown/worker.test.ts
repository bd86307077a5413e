import { waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import * as tasks from "./worker_tasks";

let receive: (event: MessageEvent) => void;
const postMessage = vi.fn();

beforeEach(async () => {
  vi.resetModules();
  vi.stubGlobal("postMessage", postMessage.mockReset());
  vi.stubGlobal("addEventListener", (_name: string, listener: typeof receive) => (receive = listener));
  await import("./worker");
});
afterEach(() => void vi.unstubAllGlobals());

it("replies to a task under its id", async () => {
  receive(new MessageEvent("message", { data: { id: 7, task: { type: "formula", tex: "x", display: false } } }));
  await waitFor(() => expect(postMessage).toHaveBeenCalledOnce());
  expect(postMessage.mock.calls[0]?.[0]).toMatchObject({ id: 7, done: expect.stringContaining("<math") as string });
});

it("replies with null to a task that fails, and lets the error through to the console", async () => {
  const failed = vi.spyOn(tasks, "perform").mockRejectedValue(new RangeError("no library"));
  vi.resetModules();
  vi.doMock("./worker_tasks", () => ({ perform: failed }));
  await import("./worker");
  const unhandled = new Promise((resolve) => process.once("unhandledRejection", resolve));
  receive(new MessageEvent("message", { data: { id: 8, task: { type: "prepare" } } }));
  expect(await unhandled).toMatchObject({ message: "no library" });
  expect(postMessage).toHaveBeenCalledExactlyOnceWith({ id: 8, done: null });
  vi.doUnmock("./worker_tasks");
});
