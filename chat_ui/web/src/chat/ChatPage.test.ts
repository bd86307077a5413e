import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import type { ConversationSummary, Model } from "../api/chat_types";
import { ApiError, failureOf } from "../api/failure";
import { texts } from "../ui/messages";
import ChatPage from "./ChatPage.svelte";
import { listed } from "../state/models.fixture";

afterEach(() => void vi.useRealTimers());

const MODEL: Model = { id: "tiny", context: 100, price: null, ready: true, tools: [], reads_images: false, searches: false };

it("starts a conversation with the model that was used last, or else with an assistant", async () => {
  const flags = { pinned: false, archived: false, shared: false, running: false };
  const row: ConversationSummary = { id: "c", title: "Mills", created: 1, updated: 1, model: "tiny", match: null, ...flags };
  const list = vi.spyOn(api, "listConversations").mockResolvedValue({ conversations: [], next: null, total: 0 });
  vi.spyOn(api, "listPresets").mockResolvedValue([]);
  vi.spyOn(api, "listModels").mockResolvedValue(listed([MODEL, { ...MODEL, id: "helper", tools: ["math"] }]));
  const { unmount } = render(ChatPage, { id: null });
  expect(await screen.findByRole("button", { name: "Model: helper" })).toBeTruthy();
  expect(screen.getByRole("button", { name: texts.toolSuggestions.math })).toBeTruthy();
  unmount();
  list.mockImplementation(async () => {
    await new Promise((done) => setTimeout(done, 50)); // the list of conversations arrives after that of models
    return { conversations: [row], next: null, total: 1 };
  });
  render(ChatPage, { id: null });
  expect(await screen.findByRole("button", { name: "Model: tiny" })).toBeTruthy();
});

it("holds a message until a model is available, and says so", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  const user = userEvent.setup({ advanceTimers: vi.advanceTimersByTime });
  vi.spyOn(api, "listConversations").mockResolvedValue({ conversations: [], next: null, total: 0 });
  vi.spyOn(api, "listPresets").mockResolvedValue([]);
  const listModels = vi.spyOn(api, "listModels");
  listModels.mockRejectedValueOnce(new ApiError(failureOf("network"))).mockResolvedValueOnce(listed([])).mockResolvedValue(listed([MODEL]));
  const create = vi.spyOn(api, "createConversation").mockRejectedValue(new ApiError(failureOf("busy")));
  render(ChatPage, { id: null });
  expect(await screen.findByText("The server cannot be reached. Check the connection.")).toBeTruthy();
  await user.type(screen.getByLabelText("Write a message"), "Hello{Enter}");
  expect(screen.getByText("It is sent as soon as a model is there.")).toBeTruthy();
  expect(create).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(3000);
  expect(await screen.findByText("No model is being served yet.")).toBeTruthy();
  await vi.advanceTimersByTimeAsync(3000);
  await waitFor(() => expect(create).toHaveBeenCalledOnce());
  expect(create.mock.calls[0]?.[0].model).toBe("tiny");
  expect(await screen.findByText("Too many requests are waiting right now.")).toBeTruthy();
  expect(screen.getByLabelText<HTMLTextAreaElement>("Write a message").value).toBe("Hello");
  expect(create).toHaveBeenCalledOnce();
});

it("says that a model chosen after an image was attached does not see it, and sends nothing until that is mended", async () => {
  const user = userEvent.setup();
  vi.spyOn(api, "listConversations").mockResolvedValue({ conversations: [], next: null, total: 0 });
  vi.spyOn(api, "listPresets").mockResolvedValue([]);
  vi.spyOn(api, "listModels").mockResolvedValue(listed([{ ...MODEL, id: "seeing", reads_images: true }, { ...MODEL, id: "blind" }]));
  vi.spyOn(api, "uploadImage").mockResolvedValue({ blob: "a", url: "/v1/blobs/a" });
  const create = vi.spyOn(api, "createConversation");
  render(ChatPage, { id: null });
  const chooser = await screen.findByRole("button", { name: "Model: seeing" });
  const field = screen.getByLabelText("Write a message");
  await fireEvent.drop(field, { dataTransfer: { files: [new File(["abc"], "cat.png", { type: "image/png" })], types: ["Files"] } });
  await user.type(field, "What is this?");
  const send = screen.getByRole<HTMLButtonElement>("button", { name: "Send" });
  expect(send.disabled).toBe(false);
  await user.click(chooser);
  await user.click(screen.getByRole("radio", { name: /blind/ }));
  expect(await screen.findByText("blind does not see images. Choose a model that does, or remove the images.")).toBeTruthy();
  expect(send.disabled).toBe(true);
  await user.type(field, "{Enter}");
  expect(create).not.toHaveBeenCalled();
  await user.click(screen.getByRole("button", { name: "Remove image 1: cat.png" }));
  expect(screen.queryByText(/or remove the images/)).toBeNull();
  expect(send.disabled).toBe(false);
});
