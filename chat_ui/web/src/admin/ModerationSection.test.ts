import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import * as api from "../api/call";
import type { ProjectModeration } from "../api/types";
import ModerationSection from "./ModerationSection.svelte";

const off = (project: string): ProjectModeration => ({ project, name: project, model: null, categories: null, prompts: false, answers: false });
const web = { ...off("web"), model: "toxic-bert", categories: ["spam"], prompts: true };
const settings = { projects: [off("chats"), web], models: ["moderation-rules"], categories: ["hate", "violence"] };
let posted: unknown[];

beforeEach(() => {
  posted = [];
  vi.spyOn(api, "call").mockImplementation(async (name, ...[given]) => {
    if (name === "POST /admin/moderation") posted.push(given);
    return settings as never;
  });
});

async function change(project: string) {
  const user = userEvent.setup();
  render(ModerationSection);
  await user.click(await screen.findByRole("button", { name: `Change: ${project}` }));
  return { user, dialog: within(screen.getByRole("dialog")) };
}
const closed = () => waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());

it("lists what is checked of each project, and what blocks", async () => {
  render(ModerationSection);
  await screen.findByText("toxic-bert");
  const rows = screen.getAllByRole("row").slice(1).map((row) => within(row).getAllByRole("cell").slice(0, 4));
  expect(rows.map((cells) => cells.map((cell) => cell.textContent))).toEqual([
    ["chats", "Nothing is checked", "", ""],
    ["web", "toxic-bert", "Prompts", "spam"],
  ]);
});

it("has the texts of a project checked for some categories", async () => {
  const { user, dialog } = await change("chats");
  await user.selectOptions(dialog.getByRole("combobox", { name: "Checked by" }), "moderation-rules");
  await user.click(dialog.getByRole("checkbox", { name: "Prompts" }));
  await user.selectOptions(dialog.getByRole("combobox", { name: "Blocks" }), "some");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  expect(await dialog.findByText("Choose a category.")).toBeTruthy();
  await user.click(dialog.getByRole("checkbox", { name: "violence" }));
  await user.click(dialog.getByRole("button", { name: "Save" }));
  await closed();
  const body = { project: "chats", model: "moderation-rules", categories: ["violence"], prompts: false, answers: true };
  expect(posted).toEqual([{ body }]);
});

it("keeps a model and a category that are not known now, and needs something to check", async () => {
  const { user, dialog } = await change("web");
  expect(dialog.getByRole("combobox", { name: "Checked by" })).toHaveProperty("value", "toxic-bert");
  expect(dialog.getByRole("checkbox", { name: "spam" })).toHaveProperty("checked", true);
  await user.click(dialog.getByRole("checkbox", { name: "Prompts" }));
  await user.click(dialog.getByRole("button", { name: "Save" }));
  expect(await dialog.findByText("Choose prompts, answers or both.")).toBeTruthy();
  await user.click(dialog.getByRole("checkbox", { name: "Answers" }));
  await user.selectOptions(dialog.getByRole("combobox", { name: "Blocks" }), "all");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  await closed();
  expect(posted).toEqual([{ body: { project: "web", model: "toxic-bert", categories: null, prompts: false, answers: true } }]);
});

it("ends the checks of a project", async () => {
  const { user, dialog } = await change("web");
  await user.selectOptions(dialog.getByRole("combobox", { name: "Checked by" }), "");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  await closed();
  expect(posted).toEqual([{ body: { project: "web", model: null } }]);
});
