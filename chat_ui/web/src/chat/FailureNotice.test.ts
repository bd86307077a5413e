import { render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, expect, it, vi } from "vitest";
import { failureOf } from "../api/failure";
import FailureNotice from "./FailureNotice.svelte";

afterEach(() => void vi.useRealTimers());

it("offers another try once the server's wait is over", async () => {
  vi.useFakeTimers();
  const onRetry = vi.fn();
  render(FailureNotice, { failure: failureOf("busy", "", 2), onRetry });
  await tick();
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Try again in 2 s" });
  expect(button.disabled).toBe(true);
  vi.advanceTimersByTime(2000);
  await tick();
  screen.getByRole("button", { name: "Try again" }).click();
  expect(onRetry).toHaveBeenCalledOnce();
});

it("shows the server's message as text, and no button where trying again can't help", () => {
  render(FailureNotice, { failure: failureOf("refused", "Bad <b>name</b>.") });
  expect(screen.getByRole("alert").textContent).toContain("Bad <b>name</b>.");
  expect(screen.queryByRole("button")).toBeNull();
});
