import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import { ApiError, failureOf } from "../api/failure";
import { Conversation } from "../state/conversation.svelte";
import { FILE_SEARCH } from "../steps/steps.fixture";
import { apiMessage } from "./messages.fixture";
import ShareDialog from "./ShareDialog.svelte";

function shown(): Conversation {
  const conversation = new Conversation({ changed: vi.fn() });
  conversation.id = "c";
  render(ShareDialog, { conversation, onClose: vi.fn() });
  return conversation;
}

it("makes a link, shows it once, and ends sharing", async () => {
  const user = userEvent.setup();
  const conversation = shown();
  vi.spyOn(api, "share").mockResolvedValue({ token: "t/1" });
  await user.click(screen.getByRole("button", { name: "Make a link" }));
  const link = await screen.findByLabelText<HTMLInputElement>("Link");
  expect([link.value, conversation.shared]).toEqual([`${location.origin}/shared/t%2F1`, true]);
  const unshare = vi.spyOn(api, "unshare").mockResolvedValue();
  await user.click(screen.getByRole("button", { name: "Stop sharing" }));
  expect(await screen.findByRole("button", { name: "Make a link" })).toBeTruthy();
  expect([unshare.mock.calls, conversation.shared]).toEqual([[["c"]], false]);
});

it("stays unshared if the server fails", async () => {
  const user = userEvent.setup();
  const conversation = shown();
  vi.spyOn(api, "share").mockRejectedValue(new ApiError(failureOf("busy")));
  await user.click(screen.getByRole("button", { name: "Make a link" }));
  expect(await screen.findByRole("button", { name: "Make a link" })).toBeTruthy();
  expect([conversation.shared, screen.queryByLabelText("Link")]).toEqual([false, null]);
});

it("says that answers from documents are shared as text", async () => {
  const settings = { model: "tiny", system: "", temperature: null, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
  const row = { id: "c", title: "Rent", created: 1, updated: 1, model: "tiny", match: null, pinned: false, archived: false, shared: false, running: false };
  const step = { number: 0, kind: "file_search", name: "", state: "done" as const, data: FILE_SEARCH };
  const messages = [apiMessage({ id: "plain" }), apiMessage({ id: "cited", parent: "plain", steps: [step] })];
  vi.spyOn(api, "readConversation").mockImplementation((leaf) => Promise.resolve({ ...row, settings, leaf, messages }));
  const conversation = new Conversation({ changed: vi.fn() });
  await conversation.load("plain");
  const first = render(ShareDialog, { conversation, onClose: vi.fn() });
  expect(screen.queryByText(/answers from documents/)).toBeNull();
  first.unmount();
  await conversation.load("cited");
  render(ShareDialog, { conversation, onClose: vi.fn() });
  expect(screen.getByText(/answers from documents: their text is shared/)).toBeTruthy();
});
