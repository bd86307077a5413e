import { render, screen } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import { ApiError, failureOf } from "../api/failure";
import { apiMessage } from "../chat/messages.fixture";
import SharedPage from "./SharedPage.svelte";

it("shows a shared conversation without means to change it", async () => {
  const question = apiMessage({ role: "user", text: "What does a mill do?" });
  const messages = [question, apiMessage({ parent: question.id, text: "It mills." })];
  const read = vi.spyOn(api, "readShared").mockResolvedValue({ title: "Mills", created: 1, updated: 1, messages });
  render(SharedPage, { token: "t" });
  expect(await screen.findByRole("heading", { name: "Mills" })).toBeTruthy();
  expect(await screen.findByText("It mills.")).toBeTruthy();
  expect(screen.getByText("What does a mill do?")).toBeTruthy();
  expect(screen.queryByRole("textbox")).toBeNull();
  expect(screen.queryByRole("button", { name: "Edit the question" })).toBeNull();
  expect(read).toHaveBeenCalledExactlyOnceWith("t");
});

it("says that a link is not valid, or why it could not be read", async () => {
  const read = vi.spyOn(api, "readShared").mockRejectedValueOnce(new ApiError(failureOf("model-not-found", "", null, "not_found")));
  const { rerender } = render(SharedPage, { token: "gone" });
  expect(await screen.findByText("There is no such conversation, or it is not shared any more.")).toBeTruthy();
  read.mockRejectedValueOnce(new ApiError(failureOf("network")));
  await rerender({ token: "other" });
  expect(await screen.findByText("The server cannot be reached. Check the connection.")).toBeTruthy();
});
