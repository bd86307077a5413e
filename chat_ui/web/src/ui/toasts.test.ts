import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError, failureOf } from "../api/failure";
import { toasts, Toasts, withErrorToast } from "./toasts.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("shows failures longer than successes", () => {
  const shown = new Toasts();
  shown.show("Saved.");
  shown.show("Broken.", "failed");
  vi.advanceTimersByTime(5_000);
  expect(shown.notices.map(({ text }) => text)).toEqual(["Broken."]);
  vi.advanceTimersByTime(7_000);
  expect(shown.notices).toEqual([]);
});

it("dismisses a toast before its time, and shows toasts in the last region", () => {
  const shown = new Toasts();
  shown.show("Saved.");
  shown.dismiss(shown.notices[0]?.id ?? -1);
  expect(shown.notices).toEqual([]);
  const leavePage = shown.showIn("page");
  const leaveDialog = shown.showIn("dialog");
  expect(shown.regions).toEqual(["page", "dialog"]);
  leaveDialog();
  expect(shown.regions).toEqual(["page"]);
  leavePage();
});

it("turns API errors into toasts, and lets other errors through", async () => {
  expect(await withErrorToast(() => Promise.resolve())).toBe(true);
  expect(toasts.notices).toEqual([]);
  expect(await withErrorToast(() => Promise.reject(new ApiError(failureOf("network"))))).toBe(false);
  expect(toasts.notices).toMatchObject([{ kind: "failed", text: "The server cannot be reached. Check the connection." }]);
  await expect(withErrorToast(() => Promise.reject(new RangeError("a bug")))).rejects.toThrow("a bug");
  toasts.dismiss(toasts.notices[0]?.id ?? -1);
});
