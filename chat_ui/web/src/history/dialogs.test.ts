import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import type { ConversationSummary } from "../api/chat_types";
import { History } from "../state/history.svelte";
import ExportDialog from "./ExportDialog.svelte";
import RemoveDialog from "./RemoveDialog.svelte";
import RenameDialog from "./RenameDialog.svelte";
import RowMenu from "./RowMenu.svelte";

const flags = { pinned: true, archived: false, shared: false, running: false };
const summary: ConversationSummary = { id: "c", title: "Mills", created: 1, updated: 1, model: "m", match: null, ...flags };

it("exports the selected conversations by default, in the selected format", async () => {
  const user = userEvent.setup();
  render(ExportDialog, { selected: ["a", "b"], onClose: vi.fn() });
  const link = screen.getByRole<HTMLAnchorElement>("link", { name: "Download" });
  expect(link.getAttribute("href")).toBe("/api/export?format=xlsx&ids=a%2Cb");
  await user.selectOptions(screen.getByLabelText("As"), "json");
  await user.selectOptions(screen.getByLabelText("What"), "All conversations");
  expect(link.getAttribute("href")).toBe("/api/export?format=json&ids=all");
});

it("renames a conversation, and stays open if the server refuses", async () => {
  const user = userEvent.setup();
  const history = new History();
  const change = vi.spyOn(history, "change").mockResolvedValueOnce(false).mockResolvedValueOnce(true);
  const onClose = vi.fn();
  render(RenameDialog, { summary, history, onClose });
  const field = screen.getByRole<HTMLInputElement>("textbox");
  expect(field.value).toBe("Mills");
  await user.clear(field);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Save" }).disabled).toBe(true);
  await user.type(field, " Wind mills {Enter}");
  expect(change).toHaveBeenCalledExactlyOnceWith("c", { title: "Wind mills" });
  expect(onClose).not.toHaveBeenCalled();
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
});

it("deletes conversations only after confirmation", async () => {
  const user = userEvent.setup();
  const [onRemove, onClose] = [vi.fn(() => Promise.resolve()), vi.fn()];
  render(RemoveDialog, { ids: ["a", "b"], onRemove, onClose });
  expect(screen.getByRole("dialog").textContent).toContain("2");
  expect(onRemove).not.toHaveBeenCalled();
  await user.click(screen.getByRole("button", { name: "Delete" }));
  expect(onRemove).toHaveBeenCalledExactlyOnceWith(["a", "b"]);
});

it("offers the actions that fit the conversation's state", async () => {
  const user = userEvent.setup();
  const history = new History();
  const change = vi.spyOn(history, "change").mockResolvedValue(true);
  const [onRename, onRemove] = [vi.fn(), vi.fn()];
  render(RowMenu, { summary, history, tabindex: 0, onRename, onRemove });
  const button = screen.getByRole("button");
  await user.click(button);
  await user.click(screen.getByRole("menuitem", { name: "Unpin" }));
  await user.click(button);
  await user.click(screen.getByRole("menuitem", { name: "Archive" }));
  expect(change.mock.calls).toEqual([["c", { pinned: false }], ["c", { archived: true }]]);
  await user.click(button);
  await user.click(screen.getByRole("menuitem", { name: "Delete" }));
  expect([onRename.mock.calls.length, onRemove.mock.calls.length]).toEqual([0, 1]);
});
