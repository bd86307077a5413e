import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { createRawSnippet } from "svelte";
import { expect, it, vi } from "vitest";
import Dialog from "./Dialog.svelte";
import { count, money, perMillion } from "./format";
import Menu from "./Menu.svelte";
import { preferences } from "./preferences";
import { Theme } from "./theme.svelte";
import { withErrorToast, Toasts, toasts } from "./toasts.svelte";
import { ApiError, failureOf } from "../api/failure";

const snippet = (html: string) => createRawSnippet(() => ({ render: () => html }));

it("a menu opens and moves by keyboard, and gives the focus back", async () => {
  const user = userEvent.setup();
  const [copy, drop] = [vi.fn(), vi.fn()];
  const items = [
    { label: "Copy", onSelect: copy },
    { label: "Delete", onSelect: drop, danger: true },
  ];
  render(Menu, { label: "More", items, children: snippet("<span>…</span>") });
  const button = screen.getByRole("button", { name: "More" });
  button.focus();
  await user.keyboard("{ArrowUp}");
  expect(document.activeElement?.textContent?.trim()).toBe("Delete");
  await user.keyboard("{ArrowDown}");
  expect(document.activeElement?.textContent?.trim()).toBe("Copy");
  await user.keyboard("d{Enter}");
  expect([drop.mock.calls.length, copy.mock.calls.length, document.activeElement]).toEqual([1, 0, button]);
  await user.keyboard("{Enter}{Escape}");
  expect([button.getAttribute("aria-expanded"), document.activeElement]).toEqual(["false", button]);
});

it("a dialog is named, is closed, and gives the focus back", async () => {
  const user = userEvent.setup();
  const opener = document.body.appendChild(document.createElement("button"));
  opener.focus();
  const onClose = vi.fn();
  const { unmount } = render(Dialog, { title: "Sure?", onClose, children: snippet("<p>text</p>") });
  const dialog = screen.getByRole<HTMLDialogElement>("dialog", { name: "Sure?" });
  dialog.dispatchEvent(new Event("cancel", { cancelable: true }));
  await user.click(screen.getByRole("button", { name: "Close" }));
  await user.click(screen.getByText("text"));
  expect([dialog.open, onClose.mock.calls.length]).toEqual([true, 2]);
  unmount();
  expect(document.activeElement).toBe(opener);
});

it("money is never nothing when it is something", () => {
  expect([0, 1, 1_234_000, 99_000_000, 1_500_000_000, -2_000_000_000].map(money)).toEqual([
    "$0.00",
    "$0.000000001",
    "$0.0012",
    "$0.099",
    "$1.50",
    "-$2.00",
  ]);
  expect([perMillion(150), count(1234567)]).toEqual(["$0.15", "1,234,567"]);
});

it("the theme is put on the document and remembered; a broken memory is none", () => {
  const theme = new Theme();
  theme.choose("dark");
  expect([document.documentElement.dataset["theme"], new Theme().chosen]).toEqual(["dark", "dark"]);
  theme.choose("system");
  expect(document.documentElement.dataset["theme"]).toBeUndefined();
  preferences.set("theme", "plaid");
  expect(new Theme().chosen).toBe("system");
  vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
    throw new DOMException("full", "QuotaExceededError");
  });
  expect(() => preferences.set("theme", "light")).not.toThrow();
  expect(preferences.get("theme")).toBe("plaid");
});

it("notices go by themselves, and failures are told in words", async () => {
  vi.useFakeTimers();
  const shown = new Toasts();
  shown.show("Saved.");
  shown.show("Broken.", "failed");
  await vi.advanceTimersByTimeAsync(6_000);
  expect(shown.notices.map((notice) => notice.text)).toEqual(["Broken."]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(shown.notices).toEqual([]);
  expect(await withErrorToast(() => Promise.reject(new ApiError(failureOf("forbidden", "no", null, "not_permitted"))))).toBe(false);
  expect(toasts.notices.at(-1)).toMatchObject({ kind: "failed", text: "Your role does not allow this." });
  vi.useRealTimers();
});
