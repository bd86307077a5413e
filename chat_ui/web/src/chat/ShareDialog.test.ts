import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import { ApiError, failureOf } from "../api/failure";
import { Conversation } from "../state/conversation.svelte";
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
