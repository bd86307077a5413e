import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { createRawSnippet } from "svelte";
import { expect, it, vi } from "vitest";
import CopyButton from "./CopyButton.svelte";
import Dialog from "./Dialog.svelte";
import Menu from "./Menu.svelte";
import Tabs from "./Tabs.svelte";

const snippet = (html: string) => createRawSnippet(() => ({ render: () => html }));

it("a menu is operated by keyboard and returns the focus", async () => {
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

it("a dialog has a name, can be closed, and returns the focus", async () => {
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

it("tabs move by arrow keys, and show the panel of the selected one", async () => {
  const user = userEvent.setup();
  const tabs = [["a", "One"], ["b", "Two"]] as const;
  const panel = snippet("<p>Panel</p>");
  render(Tabs<"a" | "b">, { label: "Parts", tabs, chosen: "a", panel });
  screen.getByRole("tab", { name: "One" }).focus();
  await user.keyboard("{ArrowLeft}");
  const two = screen.getByRole("tab", { name: "Two" });
  expect([document.activeElement, two.getAttribute("aria-selected")]).toEqual([two, "true"]);
  expect(screen.getByRole("tabpanel", { name: "Two" }).textContent).toBe("Panel");
  await user.keyboard("{Home}");
  expect(screen.getByRole("tabpanel", { name: "One" })).toBeTruthy();
});

it("a copy button shows whether copying worked", async () => {
  const user = userEvent.setup();
  const write = vi.spyOn(navigator.clipboard, "writeText").mockRejectedValueOnce(new DOMException("no", "NotAllowedError"));
  render(CopyButton, { text: "abc" });
  await user.click(screen.getByRole("button", { name: "Copy" }));
  await user.click(await screen.findByRole("button", { name: "Cannot copy" }));
  expect(await screen.findByRole("button", { name: "Copied" })).toBeTruthy();
  expect(write).toHaveBeenCalledWith("abc");
});
