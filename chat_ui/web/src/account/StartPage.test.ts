import { render, screen } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError, failureOf } from "../api/failure";
import { session } from "../session/session.svelte";
import StartPage from "./StartPage.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("tries again while the service is busy", async () => {
  const start = vi.spyOn(session, "start").mockRejectedValueOnce(new ApiError(failureOf("busy", "", 3))).mockResolvedValueOnce();
  render(StartPage, { token: "token" });
  await vi.advanceTimersByTimeAsync(2900);
  expect(start).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(start).toHaveBeenCalledTimes(2);
  expect(screen.queryByRole("alert")).toBeNull();
});

it.each([
  ["busy", 5],
  ["refused", 1],
] as const)("says that the link did not work: %s", async (kind, tries) => {
  const start = vi.spyOn(session, "start").mockReset().mockRejectedValue(new ApiError(failureOf(kind)));
  render(StartPage, { token: "token" });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(screen.getByRole("alert")).toBeTruthy();
  expect(start).toHaveBeenCalledTimes(tries);
});
