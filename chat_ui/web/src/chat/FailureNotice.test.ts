import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { failureOf } from "../api/failure";
import FailureNotice from "./FailureNotice.svelte";

afterEach(() => vi.useRealTimers());

it("shows the server's words as text", () => {
  render(FailureNotice, { failure: failureOf("server", "<img src=x onerror=alert(1)>") });
  expect(screen.getByRole("alert").textContent).toContain("The server said: <img src=x");
  expect(document.querySelector("img")).toBeNull();
});

it("waits as long as the server asked before it retries", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  const onRetry = vi.fn();
  render(FailureNotice, { failure: failureOf("busy", "", 2), onRetry });
  expect(screen.getByRole("button", { name: "Try again in 2 s" })).toHaveProperty("disabled", true);
  await vi.advanceTimersByTimeAsync(2000);
  await userEvent.setup({ advanceTimers: vi.advanceTimersByTime }).click(screen.getByRole("button", { name: "Try again" }));
  expect(onRetry).toHaveBeenCalledOnce();
});

it("offers another key only when the key is wrong", async () => {
  const onOtherKey = vi.fn();
  const { rerender } = render(FailureNotice, { failure: failureOf("network"), onOtherKey });
  expect(screen.queryByRole("button")).toBeNull();
  await rerender({ failure: failureOf("unauthorized"), onOtherKey });
  await userEvent.click(screen.getByRole("button", { name: "Use another key" }));
  expect(onOtherKey).toHaveBeenCalledOnce();
});
