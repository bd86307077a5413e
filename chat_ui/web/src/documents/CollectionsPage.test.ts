import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/call";
import { router } from "../router/router.svelte";
import { COLLECTION } from "./collection.fixture";
import CollectionsPage from "./CollectionsPage.svelte";

const path = { collection_id: "vs_1" };

it("lists collections with their files, renames and deletes one", async () => {
  const call = vi.spyOn(api, "call").mockResolvedValue({ collections: [COLLECTION], has_more: false });
  render(CollectionsPage);
  const link = await screen.findByRole("link", { name: "Leases" });
  expect(link.getAttribute("href")).toBe("/documents/vs_1");
  expect(screen.getByText(/1 file searchable/).textContent).toContain("1 file could not be read");
  await userEvent.click(screen.getByRole("button", { name: "Actions for Leases" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Rename" }));
  const field = screen.getByRole("textbox");
  await userEvent.clear(field);
  await userEvent.type(field, "Flats{Enter}");
  expect(call).toHaveBeenCalledWith("PATCH /collections/{collection_id}", { path, body: { name: "Flats" } });
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await userEvent.click(screen.getByRole("button", { name: "Actions for Leases" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Delete" }));
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Delete" }));
  expect(call).toHaveBeenCalledWith("DELETE /collections/{collection_id}", { path });
});

it("creates a collection and opens it", async () => {
  const call = vi.spyOn(api, "call").mockResolvedValue({ collections: [], has_more: false });
  const go = vi.spyOn(router, "go").mockReturnValue(undefined);
  render(CollectionsPage);
  expect(await screen.findByText("There are no collections")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "New collection" }));
  call.mockResolvedValue(COLLECTION);
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "Who reads it" }), "The organisation");
  await userEvent.type(screen.getByRole("textbox"), "Leases{Enter}");
  expect(call).toHaveBeenLastCalledWith("POST /collections", { body: { name: "Leases", scope: "organisation" } });
  await waitFor(() => expect(go).toHaveBeenCalledWith({ name: "documents", collection: "vs_1", file: null, passage: null }));
});

it("shows more collections page by page, and all of them again after a change", async () => {
  const pages = ["a", "b"].map((id) => ({ ...COLLECTION, id, name: id }));
  const call = vi.spyOn(api, "call").mockImplementation((async (name: string, given?: { query?: { after?: string } }) => {
    if (name !== "GET /collections") return undefined;
    const index = given?.query?.after === "a" ? 1 : 0;
    return { collections: [pages[index]], has_more: index === 0 };
  }) as never);
  render(CollectionsPage);
  await userEvent.click(await screen.findByRole("button", { name: "Show more collections" }));
  expect(await screen.findByRole("link", { name: "b" })).toBeTruthy();
  expect(screen.getByRole("link", { name: "a" })).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Show more collections" })).toBeNull();
  call.mockClear();
  await userEvent.click(screen.getByRole("button", { name: "Actions for b" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Delete" }));
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Delete" }));
  await waitFor(() => expect(call).toHaveBeenLastCalledWith("GET /collections", { query: { after: "a" } }));
});
