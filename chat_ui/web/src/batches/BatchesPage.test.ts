import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import * as api from "../api/call";
import * as http from "../api/http";
import { BATCH } from "./batch.fixture";
import BatchesPage from "./BatchesPage.svelte";

const LINE = '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {}}';
const DONE = { ...BATCH, id: "batch_2", name: "", state: "completed", total: 2, completed: 1, failed: 1, has_output: true, has_errors: true } as const;

afterEach(() => vi.useRealTimers());

it("shows progress, time left and results, and follows a running batch", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true, now: 1_050_000 });
  const call = vi.spyOn(api, "call").mockResolvedValue({ batches: [BATCH, DONE] });
  render(BatchesPage);
  const running = within(await screen.findByRole("article", { name: "questions.jsonl" }));
  expect(running.getByRole("progressbar", { name: "Lines that are done" })).toHaveProperty("position", 0.25);
  expect(running.getByText(/^1,000 of 4,000 lines/).textContent).toContain("10 errors");
  expect(running.getByText("about 3 minutes left")).toBeTruthy();
  const ended = within(screen.getByRole("article", { name: "batch_2" }));
  expect(ended.getByText("Completed")).toBeTruthy();
  expect(ended.getByRole("link", { name: "Download answers" }).getAttribute("href")).toBe("/api/batches/batch_2/output");
  expect(ended.getByRole("link", { name: "Download errors" }).getAttribute("href")).toBe("/api/batches/batch_2/errors");
  expect(ended.queryByRole("button")).toBeNull();
  call.mockResolvedValue({ batches: [{ ...BATCH, state: "completed", completed: 4000, failed: 0 }] });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await screen.findByText("4,000 of 4,000 lines")).toBeTruthy();
  const calls = call.mock.calls.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(call.mock.calls).toHaveLength(calls);
});

it("starts a batch with the endpoint of the file's first line", async () => {
  vi.spyOn(api, "call").mockResolvedValue({ batches: [] });
  const json = vi.spyOn(http, "json").mockResolvedValue(BATCH);
  render(BatchesPage);
  expect(await screen.findByText("There are no batches")).toBeTruthy();
  const input = screen.getByLabelText("Input file");
  await userEvent.upload(input, new File(["{}"], "wrong.jsonl"), { applyAccept: false });
  expect((await screen.findByRole("alert")).textContent).toContain("names no endpoint");
  expect(json).not.toHaveBeenCalled();
  const file = new File([LINE], "in.jsonl");
  await userEvent.upload(input, file, { applyAccept: false });
  await waitFor(() => expect(json).toHaveBeenCalledWith("POST", "/batches", { file, query: { endpoint: "/v1/chat/completions", name: "in.jsonl" } }));
  expect(screen.queryByRole("alert")).toBeNull();
});

it("cancels after a confirmation, and names the lines of an invalid file", async () => {
  const failed = { ...BATCH, id: "batch_3", state: "failed", total: 0, problems: [{ line: 7, message: "No JSON." }] } as const;
  const call = vi.spyOn(api, "call").mockResolvedValue({ batches: [BATCH, failed] });
  render(BatchesPage);
  expect(await screen.findByText("Line 7: No JSON.")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Cancel batch" }));
  const dialog = within(screen.getByRole("dialog"));
  expect(dialog.getByRole("button", { name: "Keep running" })).toBeTruthy();
  await userEvent.click(dialog.getByRole("button", { name: "Cancel batch" }));
  expect(call).toHaveBeenCalledWith("POST /batches/{batch_id}/cancel", { path: { batch_id: "batch_1" } });
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});
