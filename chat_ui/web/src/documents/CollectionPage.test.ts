import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import * as api from "../api/call";
import { ApiError, failureOf } from "../api/failure";
import * as uploading from "../api/upload";
import CollectionPage from "./CollectionPage.svelte";
import { COLLECTION, FILES } from "./collection.fixture";

afterEach(() => vi.useRealTimers());

const READ = { ...FILES, collection: { ...COLLECTION, in_progress: 0, completed: 2 } };

it("follows the files that are being read, and names a broken one with its reason", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true, now: 1_000_000 });
  const call = vi.spyOn(api, "call").mockResolvedValue(FILES);
  render(CollectionPage, { id: "vs_1" });
  expect(await screen.findByRole("heading", { name: "Leases" })).toBeTruthy();
  expect(screen.getByRole("link", { name: "lease.pdf" }).getAttribute("href")).toBe("/documents/vs_1/file-1");
  expect(screen.getByText("Old Word files are not read.")).toBeTruthy();
  expect(screen.getByText("Scanned without text, and not read: page 2 of 3.")).toBeTruthy();
  expect(screen.queryByRole("link", { name: "old.doc" })).toBeNull();
  expect(screen.getByRole("progressbar", { name: "Files that are read" })).toHaveProperty("value", 2);
  call.mockResolvedValue(READ);
  await vi.advanceTimersByTimeAsync(2_000);
  await waitFor(() => expect(screen.queryByRole("progressbar")).toBeNull());
  const calls = call.mock.calls.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(call.mock.calls).toHaveLength(calls);
});

it("uploads several files, and keeps the one that fails with its reason", async () => {
  vi.spyOn(api, "call").mockResolvedValue({ ...READ, files: [] });
  const upload = vi.spyOn(uploading, "upload").mockImplementation(async (_path, { name }) => {
    if (name === "b.txt") throw new ApiError(failureOf("refused", "The disk is full."));
  });
  render(CollectionPage, { id: "vs_1" });
  await userEvent.upload(await screen.findByLabelText("Files to upload"), [new File(["a"], "a.txt"), new File(["b"], "b.txt")]);
  expect(await screen.findByText("The disk is full.")).toBeTruthy();
  expect(upload.mock.calls.map(([path, { name }]) => [path, name])).toEqual([
    ["/collections/vs_1/files", "a.txt"],
    ["/collections/vs_1/files", "b.txt"],
  ]);
  const list = within(screen.getByRole("list", { name: "Uploads" }));
  expect(list.queryByText("a.txt")).toBeNull();
  await userEvent.click(list.getByRole("button", { name: "Remove b.txt" }));
  expect(screen.queryByRole("list", { name: "Uploads" })).toBeNull();
});

it("searches, and links each passage to its place in the document", async () => {
  const passage = { file: "file-1", name: "lease.pdf", number: 7, text: "The rent is 700 euros.", page: 3, heading_path: ["Lease", "Rent"], score: 0.81 };
  const call = vi.spyOn(api, "call").mockResolvedValue(READ);
  render(CollectionPage, { id: "vs_1" });
  const field = await screen.findByRole("searchbox", { name: "Search in these documents" });
  call.mockResolvedValue({ passages: [passage] });
  await userEvent.type(field, "rent?{Enter}");
  const found = within(await screen.findByRole("list", { name: "Passages" }));
  expect(call).toHaveBeenLastCalledWith("POST /collections/{collection_id}/search", { path: { collection_id: "vs_1" }, body: { query: "rent?" } });
  expect(found.getByRole("link", { name: "lease.pdf" }).getAttribute("href")).toBe("/documents/vs_1/file-1/7");
  expect(found.getByText("page 3 · Lease › Rent · fits by 81%")).toBeTruthy();
});

it("deletes a file after a confirmation, and lists only the broken ones", async () => {
  const call = vi.spyOn(api, "call").mockResolvedValue(READ);
  render(CollectionPage, { id: "vs_1" });
  await userEvent.click(await screen.findByRole("button", { name: "Delete old.doc?" }));
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Delete file" }));
  const path = { collection_id: "vs_1" };
  expect(call).toHaveBeenCalledWith("DELETE /collections/{collection_id}/files/{file_id}", { path: { ...path, file_id: "file-3" } });
  await userEvent.click(screen.getByRole("checkbox", { name: "Only files that could not be read" }));
  await waitFor(() => expect(call).toHaveBeenLastCalledWith("GET /collections/{collection_id}/files", { path, query: { failed: true } }));
});
