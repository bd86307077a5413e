import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import * as api from "../api/call";
import type { Role } from "../api/types";
import { ADA } from "../session/example_user";
import { session } from "../session/session.svelte";
import ModelAccessSection from "./ModelAccessSection.svelte";

const person = (id: string, role: Role) => ({ id, email: `${id}@example.org`, name: id, role, added_at: 1 });
const project = (id: string, archived: number | null) => ({ id, name: id, created: 1, archived });
const answers = new Map<string, unknown>([
  ["GET /admin/projects", { projects: [project("web", null), project("old", 2)] }],
  ["GET /people", { people: [person("olga", "owner"), person("ada", "admin"), person("bob", "member")] }],
  [
    "GET /admin/model-access",
    { policies: [{ kind: "user", id: "bob", mode: "allow_list", model_ids: ["small", "gone"] }], models: ["large", "small"] },
  ],
]);
let asked: [string, unknown][];

beforeEach(() => {
  asked = [];
  vi.spyOn(api, "call").mockImplementation(async (name, ...[given]) => {
    asked.push([name, given]);
    return answers.get(name) as never;
  });
});

function show(role: Role): ReturnType<typeof userEvent.setup> {
  session.me = { ...ADA, role };
  render(ModelAccessSection);
  return userEvent.setup();
}
const posted = () => asked.filter(([name]) => name === "POST /admin/model-access").map(([, given]) => given);

it("lists projects in use, roles and members, and what they may use, without owners", async () => {
  show("owner");
  await screen.findByText("Only small, gone");
  const names = screen.getAllByRole("row").slice(1).map((row) => within(row).getAllByRole("cell")[1]?.textContent);
  expect(names).toEqual(["web", "Administrator", "Member", "Viewer", "ada", "bob"]);
  expect(screen.getAllByText("Every model")).toHaveLength(5);
  expect(screen.getAllByRole("button", { name: /^Change/ })).toHaveLength(6);
});

it("offers administrators no change of administrators", async () => {
  show("admin");
  await screen.findByText("Only small, gone");
  const buttons = screen.getAllByRole("button", { name: /^Change/ }).map((each) => each.getAttribute("aria-label"));
  expect(buttons).toEqual(["Change: web", "Change: Member", "Change: Viewer", "Change: bob"]);
});

it("forbids models, and keeps named models that are not served", async () => {
  const user = show("owner");
  await user.click(await screen.findByRole("button", { name: "Change: bob" }));
  const dialog = within(screen.getByRole("dialog"));
  expect(dialog.getByLabelText("Other models")).toHaveProperty("value", "gone");
  await user.selectOptions(dialog.getByRole("combobox", { name: "Models" }), "deny_list");
  await user.click(dialog.getByRole("checkbox", { name: "large" }));
  await user.click(dialog.getByRole("checkbox", { name: "small" }));
  await user.click(dialog.getByRole("button", { name: "Save" }));
  const body = { kind: "user", id: "bob", mode: "deny_list", model_ids: ["large", "gone"] };
  await waitFor(() => expect(posted()).toEqual([{ body }]));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

it("permits every model again", async () => {
  const user = show("owner");
  await user.click(await screen.findByRole("button", { name: "Change: bob" }));
  await user.selectOptions(screen.getByRole("combobox", { name: "Models" }), "all");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(posted()).toEqual([{ body: { kind: "user", id: "bob", mode: "deny_list", model_ids: [] } }]));
});
