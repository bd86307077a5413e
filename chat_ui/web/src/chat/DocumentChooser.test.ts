import { render, screen, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/call";
import { COLLECTION } from "../documents/collection.fixture";
import { Settings } from "../state/settings.svelte";
import DocumentChooser from "./DocumentChooser.svelte";

it("chooses collections, and shows those that are chosen", async () => {
  const other = { ...COLLECTION, id: "vs_2", name: "Recipes" };
  vi.spyOn(api, "call").mockResolvedValue({ collections: [COLLECTION, other], has_more: false });
  const settings = new Settings();
  settings.vectorStores = ["vs_2", "vs_gone"];
  render(DocumentChooser, { settings });
  expect(await screen.findByText("Recipes")).toBeTruthy();
  expect(screen.getByText("A collection that is gone")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Ask my documents" }));
  const dialog = within(screen.getByRole("dialog"));
  const leases = await dialog.findByRole("checkbox", { name: /^Leases/ });
  await userEvent.click(leases);
  expect(settings.vectorStores).toEqual(["vs_2", "vs_gone", "vs_1"]);
  await userEvent.click(dialog.getByRole("checkbox", { name: /^Recipes/ }));
  await userEvent.click(screen.getByRole("button", { name: "Leave out A collection that is gone" }));
  expect(settings.vectorStores).toEqual(["vs_1"]);
});

it("names a chosen collection of a later page, and shows more of them", async () => {
  const pages = ["a", "b", "c"].map((id) => ({ ...COLLECTION, id, name: `Page ${id}` }));
  vi.spyOn(api, "call").mockImplementation((async (_name: string, { query }: { query: { after?: string } }) => {
    const index = pages.findIndex(({ id }) => id === query.after) + 1;
    return { collections: [pages[index]], has_more: index < 2 };
  }) as never);
  const settings = new Settings();
  settings.vectorStores = ["b"];
  render(DocumentChooser, { settings });
  expect(await screen.findByText("Page b")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Ask my documents" }));
  const dialog = within(screen.getByRole("dialog"));
  await userEvent.click(await dialog.findByRole("button", { name: "Show more collections" }));
  await userEvent.click(await dialog.findByRole("checkbox", { name: /^Page c/ }));
  expect(settings.vectorStores).toEqual(["b", "c"]);
});
