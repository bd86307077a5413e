import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import * as api from "../api/call";
import { ApiError, failureOf } from "../api/failure";
import type { Role } from "../api/types";
import type { AdminSection } from "../router/routes";
import { ADA } from "../session/example_user";
import { session } from "../session/session.svelte";
import AdminPage from "./AdminPage.svelte";

const HOSTILE = "<img src=x onerror=alert(1)>";
const person = (id: string, role: Role) => ({ id, email: `${id}@example.org`, name: id + HOSTILE, role, added_at: 1_700_000_000 });
const project = { id: "proj-1", name: "Web", created: 1_700_000_000, archived: null };
const key = { id: "k1", name: "ci", project: "proj-1", last4: "abcd", created: 1, expires: null, last_used: null, user: "", email: "", models: null };

const answers = new Map<string, unknown>();
let asked: [string, unknown][];

beforeEach(() => {
  asked = [];
  answers.clear();
  answers.set("GET /admin/collections", { collections: [], has_more: false });
  answers.set("GET /admin/document-audit", { enabled: false });
  vi.spyOn(api, "call").mockImplementation(async (name, ...[given]) => {
    asked.push([name, given]);
    const answer = answers.get(name);
    if (answer instanceof Error) throw answer;
    return answer as never;
  });
});

function show(section: AdminSection, role: Role = "owner", operator = true): ReturnType<typeof userEvent.setup> {
  session.me = { ...ADA, user: { ...ADA.user, id: "ada" }, role, operator };
  render(AdminPage, { section });
  return userEvent.setup();
}

it("is shown to administrators only", () => {
  show("people", "member");
  expect(screen.getByText("This page is for administrators of the organisation.")).toBeTruthy();
  expect(asked).toEqual([]);
});

it("lists members, changes a role, removes a member after confirmation, and protects owners from administrators", async () => {
  answers.set("GET /people", { people: [person("ada", "admin"), person("bob", "member"), person("eve", "owner")] });
  answers.set("GET /invitations", { invitations: [] });
  const user = show("people", "admin");
  await user.selectOptions(await screen.findByLabelText(`Role of bob${HOSTILE}`), "viewer");
  expect(asked).toContainEqual(["PATCH /people/{user}", { path: { user: "bob" }, body: { role: "viewer" } }]);
  expect(screen.queryByLabelText(`Role of eve${HOSTILE}`)).toBeNull();
  expect(screen.queryByLabelText(`Role of ada${HOSTILE}`)).toBeNull();
  expect(document.querySelector("td img")).toBeNull();
  await user.click(screen.getByRole("button", { name: `Remove: bob${HOSTILE}` }));
  const dialog = screen.getByRole("dialog");
  expect(asked.map(([name]) => name)).not.toContain("DELETE /people/{user}");
  await user.click(within(dialog).getByRole("button", { name: "Remove" }));
  await waitFor(() => expect(asked).toContainEqual(["DELETE /people/{user}", { path: { user: "bob" } }]));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

it("creates an invitation and shows its link once", async () => {
  answers.set("GET /people", { people: [] });
  answers.set("GET /invitations", { invitations: [] });
  answers.set("POST /invitations", { token: "t_1" });
  const user = show("people");
  await user.click(await screen.findByRole("button", { name: "Invite" }));
  await user.selectOptions(within(screen.getByRole("dialog")).getByLabelText("Role"), "admin");
  await user.click(screen.getByRole("button", { name: "Make a link" }));
  expect(await screen.findByDisplayValue(`${location.origin}/#invitation=t_1`)).toBeTruthy();
  expect(asked).toContainEqual(["POST /invitations", { body: { role: "admin", email: "" } }]);
  await user.click(screen.getByRole("button", { name: "Done" }));
  expect(document.body.textContent).not.toContain("t_1");
});

it("creates a key with a budget, shows it once, and rotates one", async () => {
  answers.set("GET /admin/keys", { keys: [key] });
  answers.set("GET /admin/projects", { projects: [project] });
  answers.set("POST /admin/keys", { key, text: "hr_live_new" });
  answers.set("POST /admin/keys/{key_id}/rotate", { key, text: "hr_live_next" });
  answers.set("GET /models", { models: [{ id: "tiny", context: 1, price: null, ready: true, tools: [], reads_images: false, searches: false }], search: { verifiers: [], max_tokens: 0, answer_tokens: 0 } });
  const user = show("keys");
  await user.click(await screen.findByRole("button", { name: "New key" }));
  const dialog = within(screen.getByRole("dialog"));
  await user.type(dialog.getByLabelText("Name"), "build");
  await user.selectOptions(dialog.getByLabelText("Model"), "tiny");
  await user.type(dialog.getByLabelText(/^Budget/), "twelve");
  await user.click(dialog.getByRole("button", { name: "Make the key" }));
  expect(dialog.getByText(/not an amount/)).toBeTruthy();
  await user.clear(dialog.getByLabelText(/^Budget/));
  await user.type(dialog.getByLabelText(/^Budget/), "12.5");
  await user.click(dialog.getByRole("button", { name: "Make the key" }));
  expect(await screen.findByDisplayValue("hr_live_new")).toBeTruthy();
  const body = { project: "proj-1", name: "build", budget_nano: 12_500_000_000, models: ["tiny"] };
  expect(asked).toContainEqual(["POST /admin/keys", { body }]);
  await user.click(screen.getByRole("button", { name: "Done" }));
  await user.click(await screen.findByRole("button", { name: "Actions: ci" }));
  await user.keyboard("{ArrowDown}{ArrowUp}{Enter}");
  expect(await screen.findByDisplayValue("hr_live_next")).toBeTruthy();
});

it("creates and renames projects, and shows the error of an invalid name", async () => {
  answers.set("GET /admin/projects", { projects: [project] });
  answers.set("POST /admin/projects", new ApiError(failureOf("refused", "A name has no control characters.", null, "invalid_value")));
  const user = show("projects");
  await user.click(await screen.findByRole("button", { name: "New project" }));
  await user.type(within(screen.getByRole("dialog")).getByLabelText("Name"), "x");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByText("A name has no control characters.")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Cancel" }));
  await user.click(screen.getByRole("button", { name: "Actions: Web" }));
  await user.click(screen.getByRole("menuitem", { name: "Rename" }));
  await user.type(within(screen.getByRole("dialog")).getByLabelText("Name"), "site");
  await user.click(screen.getByRole("button", { name: "Save" }));
  const renamed = { path: { project_id: "proj-1" }, body: { name: "Website" } };
  await waitFor(() => expect(asked).toContainEqual(["PATCH /admin/projects/{project_id}", { ...renamed, body: { name: "Website" } }]));
});

it("sets and removes a budget", async () => {
  const row = { name: "project:proj-1", label: "Web", limit_nano: 1_500_000_000, spent_nano: 1, held_nano: 0 };
  answers.set("GET /admin/budgets", { budgets: [row] });
  answers.set("GET /admin/credit", { available_nano: 0, held_nano: 0, spent_nano: 0, entries: [] });
  const user = show("budgets");
  await user.click(await screen.findByRole("button", { name: "Change: Project Web" }));
  await user.clear(screen.getByDisplayValue("1.5"));
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(asked).toContainEqual(["POST /admin/budgets", { body: { name: row.name, limit_nano: null } }]));
});

const NONE = { requests_per_minute: null, tokens_per_minute: null, requests_per_day: null, concurrent_requests: null };

it("shows limits in force, refuses invalid ones and those above the operator's, and sets them", async () => {
  const row = { subject: "model:tiny", label: "tiny", own: { ...NONE, requests_per_day: 9 }, ceiling: { ...NONE, requests_per_minute: 60 } };
  answers.set("GET /admin/rate_limits", { limits: [row] });
  const user = show("limits");
  await user.click(await screen.findByRole("button", { name: "Change: Model tiny, in all projects" }));
  expect([screen.getByText("60"), screen.getByText("9")]).toHaveLength(2);
  const dialog = within(screen.getByRole("dialog"));
  expect(dialog.getByText("At most 60, set by the operator.")).toBeTruthy();
  await user.type(dialog.getByLabelText("Requests a minute"), "61");
  await user.type(dialog.getByLabelText("Tokens a minute"), "0");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  expect(dialog.getByText("This is more than the operator allows.")).toBeTruthy();
  expect(dialog.getByText(/whole number/)).toBeTruthy();
  expect(asked.map(([name]) => name)).not.toContain("POST /admin/rate_limits");
  await user.clear(dialog.getByLabelText("Requests a minute"));
  await user.clear(dialog.getByLabelText("Requests a day"));
  await user.clear(dialog.getByLabelText("Tokens a minute"));
  await user.type(dialog.getByLabelText("Tokens a minute"), "9 000");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  const body = { ...NONE, subject: "model:tiny", tokens_per_minute: 9000 };
  await waitFor(() => expect(asked).toContainEqual(["POST /admin/rate_limits", { body }]));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

it("sets the limits of a person and of a key, and not an owner's for administrators", async () => {
  answers.set("GET /people", { people: [person("bob", "member"), person("eve", "owner")] });
  answers.set("GET /invitations", { invitations: [] });
  answers.set("GET /admin/rate_limits", { limits: [{ subject: "person:bob", label: "bob", own: NONE, ceiling: NONE }] });
  const user = show("people", "admin");
  await user.click(await screen.findByRole("button", { name: `Limits: bob${HOSTILE}` }));
  expect(await screen.findByRole("dialog", { name: "Limits: bob" })).toBeTruthy();
  expect(asked).toContainEqual(["GET /admin/rate_limits", { query: { subject: "person:bob" } }]);
  await user.type(screen.getByLabelText("At the same time"), "2");
  await user.click(screen.getByRole("button", { name: "Save" }));
  const body = { ...NONE, subject: "person:bob", concurrent_requests: 2 };
  await waitFor(() => expect(asked).toContainEqual(["POST /admin/rate_limits", { body }]));
  expect(screen.queryByRole("button", { name: `Limits: eve${HOSTILE}` })).toBeNull();
});

it("shows models, workers and the link to the console", async () => {
  const load = { running: 3, waiting: 2, capacity: 8 };
  answers.set("GET /admin/workers", {
    models: [{ id: "tiny", task: "generate", workers: 1, queued: 7, alive: true, ...load }],
    workers: [{ id: "w-1", model: "tiny", state: "ready", device: "cpu", kv_cache_usage: 0.25, tokens_per_second: 31.6, started: 1, ...load }],
    console: "https://rabbit.example/",
  });
  show("models");
  expect(await screen.findByRole("link", { name: "RabbitMQ console" })).toHaveProperty("href", "https://rabbit.example/");
  expect(screen.getAllByRole("meter", { name: "3 of 8 running" })).toHaveLength(2);
  expect([screen.getByText("7"), screen.getByText("25%"), screen.getByText("32")]).toHaveLength(3);
});

it("hides models and workers from administrators of other organisations", () => {
  show("models", "owner", false);
  expect(screen.queryByRole("link", { name: "Models and workers" })).toBeNull();
  expect(screen.getByText("This page is for administrators of the organisation.")).toBeTruthy();
  expect(asked).toEqual([]);
});

it("lists collections of people who have left, and deletes one after confirmation", async () => {
  answers.set("GET /people", { people: [person("ada", "admin")] });
  answers.set("GET /invitations", { invitations: [] });
  const left = { id: "vs_1", name: `Leases${HOSTILE}`, person: "bob@example.org", created: 1_700_000_000, files: 12, size: 5000 };
  answers.set("GET /admin/collections", { collections: [left], has_more: true });
  const user = show("people", "admin");
  const row = within(await screen.findByRole("row", { name: /Leases/ }));
  expect(row.getAllByRole("cell").slice(0, 3).map(({ textContent }) => textContent)).toEqual([left.name, "bob@example.org", "12"]);
  answers.set("GET /admin/collections", { collections: [{ ...left, id: "vs_0", name: "Notes" }], has_more: false });
  await user.click(screen.getByRole("button", { name: "Older entries" }));
  expect(await screen.findByRole("row", { name: /Notes/ })).toBeTruthy();
  expect(asked.at(-1)).toEqual(["GET /admin/collections", { query: { after: "vs_1" } }]);
  answers.set("GET /admin/collections", { collections: [], has_more: false });
  await user.click(screen.getByRole("button", { name: `Remove: ${left.name}` }));
  expect(asked.map(([name]) => name)).not.toContain("DELETE /admin/collections/{collection_id}");
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Remove" }));
  await waitFor(() => expect(screen.queryByRole("heading", { name: "Collections of people who have left" })).toBeNull());
  expect(asked).toContainEqual(["DELETE /admin/collections/{collection_id}", { path: { collection_id: "vs_1" } }]);
});

it("has every access to documents recorded, and shows the change in the log", async () => {
  answers.set("GET /admin/audit", { entries: [], next: null });
  const user = show("audit");
  const box = await screen.findByRole<HTMLInputElement>("checkbox", { name: "Record every access to documents" });
  expect(box.checked).toBe(false);
  answers.set("GET /admin/document-audit", { enabled: true });
  const before = asked.filter(([name]) => name === "GET /admin/audit").length;
  await user.click(box);
  await waitFor(() => expect(asked.filter(([name]) => name === "GET /admin/audit")).toHaveLength(before + 1));
  expect(asked).toContainEqual(["POST /admin/document-audit", { body: { enabled: true } }]);
  expect(box.checked).toBe(true);
});

it("reads the audit log page by page", async () => {
  const actor = { user: "", email: "", key: "", address: "" };
  const entry = (id: string, event: string) => ({ id, event, target: "t", project: "", actor, at: 1, details: { name: HOSTILE, none: null } });
  answers.set("GET /admin/audit", { entries: [entry("1", "user.deleted")], next: "1" });
  const user = show("audit");
  expect(await screen.findByText("Person removed")).toBeTruthy();
  expect(screen.getByText(`name: ${HOSTILE}`)).toBeTruthy();
  answers.set("GET /admin/audit", { entries: [entry("0", "login.failed")], next: null });
  await user.click(screen.getByRole("button", { name: "Older entries" }));
  expect(await screen.findByText("Sign-in failed")).toBeTruthy();
  expect(asked).toContainEqual(["GET /admin/audit", { query: { cursor: "1" } }]);
  expect(screen.getByText("Person removed")).toBeTruthy();
});

const price = { input_nano: 150, cached_input_nano: 75, output_nano: 600, units_nano: { call: 1_000_000 } };
const priceList = (in_file: boolean) => ({
  version: 3,
  in_file,
  prices: ["default", "flex"].map((service_class) => ({ model: "tiny", service_class, price })),
});

it("changes the prices of one class, and keeps those of the others", async () => {
  answers.set("GET /admin/prices", priceList(false));
  answers.set("POST /admin/prices", priceList(false));
  const user = show("prices");
  await user.click(await screen.findByRole("button", { name: "Actions: tiny, Flex" }));
  await user.click(screen.getByRole("menuitem", { name: "Change" }));
  const dialog = within(screen.getByRole("dialog"));
  const output = dialog.getByLabelText("Output");
  await user.clear(output);
  await user.type(output, "0.0005");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  expect(dialog.getByText(/at most three digits/)).toBeTruthy();
  await user.clear(output);
  await user.type(output, "0.3");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  const rates = { default: price, flex: { ...price, output_nano: 300 } };
  await waitFor(() => expect(asked).toContainEqual(["POST /admin/prices", { body: { version: 3, model: "tiny", rates } }]));
});

it("sets a new price for every class, of all other models if no name is given", async () => {
  answers.set("GET /admin/prices", priceList(false));
  answers.set("POST /admin/prices", priceList(false));
  const user = show("prices");
  for (const model of ["tiny", null]) {
    await user.click(await screen.findByRole("button", { name: "New price" }));
    const dialog = within(screen.getByRole("dialog"));
    if (model !== null) await user.type(dialog.getByLabelText("Model"), model);
    await user.type(dialog.getByLabelText("Input"), "0.2");
    await user.type(dialog.getByLabelText("Output"), "0");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    const rates = { default: { input_nano: 200, cached_input_nano: 200, output_nano: 0, units_nano: {} } };
    await waitFor(() => expect(asked).toContainEqual(["POST /admin/prices", { body: { version: 3, model, rates } }]));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  }
});

it("offers no change of prices that are in a file, nor to administrators of other organisations", async () => {
  answers.set("GET /admin/prices", priceList(true));
  show("prices");
  expect(await screen.findByText(/can be changed only there/)).toBeTruthy();
  expect(screen.queryByRole("button", { name: "New price" })).toBeNull();
  answers.set("GET /admin/prices", priceList(false));
  show("prices", "owner", false);
  await screen.findByText(/New requests cost/);
  expect(screen.queryByRole("button", { name: "New price" })).toBeNull();
});

it("gives credit once per dialog, and shows the usage of all organisations", async () => {
  const row = { id: "org-1", name: HOSTILE, created: 1, available_nano: 5e9, held_nano: 0, spent_nano: 0, open: true };
  const used = { requests: 2, input_tokens: 30, cached_tokens: 10, output_tokens: 5, cost_nano: 123 };
  answers.set("GET /admin/organisations", { organisations: [row], next: "org-1" });
  answers.set("GET /admin/installation-usage", {
    by_day: [],
    by_organisation: [{ id: "org-1", name: "One", ...used }],
    complete_until: 1_700_000_000,
  });
  answers.set("POST /admin/organisations/{organisation}/credit", new ApiError(failureOf("refused", "3 USD are available", null, "invalid_value")));
  const user = show("installation");
  expect(await screen.findByText("One")).toBeTruthy();
  expect(screen.getByRole("link", { name: "Download CSV" }).getAttribute("href")).toBe("/api/admin/installation-usage.csv?days=30");
  await user.click(screen.getByRole("button", { name: `Credit: ${HOSTILE}` }));
  const dialog = within(screen.getByRole("dialog"));
  await user.selectOptions(dialog.getByLabelText("Kind"), "withdrawal");
  await user.type(dialog.getByLabelText(/^Amount/), "4.5");
  await user.type(dialog.getByLabelText("Reason"), "mistake");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  expect(await dialog.findByText("3 USD are available")).toBeTruthy();
  answers.set("POST /admin/organisations/{organisation}/credit", {});
  await user.click(dialog.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const sent = asked.filter(([name]) => name.startsWith("POST"));
  expect(sent).toHaveLength(2);
  expect(sent[0]).toEqual(sent[1]);
  expect(sent[0]?.[1]).toMatchObject({ path: { organisation: "org-1" }, body: { kind: "withdrawal", amount_nano: 4_500_000_000 } });
  await user.click(await screen.findByRole("button", { name: "Next page" }));
  await waitFor(() => expect(asked.at(-1)).toEqual(["GET /admin/organisations", { query: { cursor: "org-1" } }]));
});

it("shows prices per million tokens", async () => {
  answers.set("GET /admin/prices", { version: 3, in_file: false, prices: [{ model: null, service_class: "standard", price }] });
  show("prices");
  expect((await screen.findAllByText(/^\$/)).map((cell) => cell.textContent)).toEqual(["$0.15", "$0.075", "$0.60"]);
});
