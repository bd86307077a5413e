import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { History } from "../state/history.svelte";
import SearchField from "./SearchField.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("searches once typing pauses, announces the number found, and clears with Escape", async () => {
  const user = userEvent.setup({ advanceTimers: vi.advanceTimersByTime });
  const history = new History();
  const search = vi.spyOn(history, "search").mockImplementation((query) => {
    [history.query, history.total] = [query, 2];
    return Promise.resolve();
  });
  render(SearchField, { history });
  const field = screen.getByLabelText<HTMLInputElement>("Search conversations");
  await user.type(field, "mill ");
  expect(search).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(250);
  expect(search).toHaveBeenCalledExactlyOnceWith("mill");
  expect(screen.getByRole("status").textContent).toBe("2 conversations found");
  await user.type(field, "{Escape}");
  await vi.advanceTimersByTimeAsync(0);
  expect([field.value, search.mock.lastCall?.[0], document.activeElement]).toEqual(["", "", field]);
});
