import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import type { Model } from "../api/chat_types";
import { Conversation } from "../state/conversation.svelte";
import { drafts } from "../state/drafts";
import { toasts } from "../ui/toasts.svelte";
import Composer from "./Composer.svelte";
import { apiMessage } from "./messages.fixture";

const SEEING: Model = { id: "seeing", context: 100, price: null, ready: true, tools: [], reads_images: true, searches: false };
const BLIND: Model = { ...SEEING, id: "blind", reads_images: false, searches: false };
const PNG = new File(["abc"], "cat.png", { type: "image/png" });

function shown(model: Model) {
  const conversation = new Conversation({ changed: vi.fn() });
  const sent = vi.spyOn(conversation, "send").mockResolvedValue(true);
  const { container } = render(Composer, { conversation, usable: true, model });
  const picker = container.querySelector<HTMLInputElement>("input[type=file]");
  if (picker === null) throw new Error("there is no file field");
  return { conversation, sent, picker, field: screen.getByLabelText<HTMLTextAreaElement>("Write a message") };
}

beforeEach(() => {
  vi.restoreAllMocks();
  drafts.clear();
  let made = 0;
  vi.spyOn(api, "uploadImage").mockImplementation(() => Promise.resolve({ blob: `blob_${++made}`, url: `/v1/blobs/${made}` }));
});

it("says the limits, shows a preview, and sends the image with the question", async () => {
  const user = userEvent.setup();
  const { sent, picker, field } = shown(SEEING);
  expect(screen.getByText(/at most 16 in a message, 8 MiB together/)).toBeTruthy();
  await user.upload(picker, PNG);
  expect((await screen.findByRole("img", { name: "Image: cat.png" })).getAttribute("src")).toBe("/v1/blobs/1");
  await user.type(field, "What is this?{Enter}");
  expect(sent.mock.calls[0]?.[2]).toMatchObject([{ blob: "blob_1", name: "cat.png" }]);
  expect(screen.queryByRole("img")).toBeNull();
});

it("attaches pasted and dropped images, and removes one by keyboard", async () => {
  const user = userEvent.setup();
  const { field } = shown(SEEING);
  await fireEvent.paste(field, { clipboardData: { files: [PNG], types: ["Files"] } });
  await screen.findByRole("img", { name: "Image: cat.png" });
  await fireEvent.drop(field, { dataTransfer: { files: [new File(["abc"], "dog.png", { type: "image/png" })], types: ["Files"] } });
  await screen.findByRole("img", { name: "Image: dog.png" });
  screen.getByRole("button", { name: "Remove image 1: cat.png" }).focus();
  await user.keyboard("{Enter}");
  await waitFor(() => expect(screen.getAllByRole("img").map((each) => each.getAttribute("alt"))).toEqual(["Image: dog.png"]));
  expect(document.activeElement).toBe(field);
});

it("does not attach images for a model that does not see them, and says so", async () => {
  const user = userEvent.setup();
  const told = vi.spyOn(toasts, "show");
  const { picker } = shown(BLIND);
  const attach = screen.getByRole("button", { name: "Attach text files" });
  expect(attach.getAttribute("title")).toBe("Attach text files. blind does not see images.");
  await user.upload(picker, PNG);
  await waitFor(() => expect(told).toHaveBeenCalledWith("blind does not see images. Choose a model that does.", "failed"));
  expect(api.uploadImage).not.toHaveBeenCalled();
});

it("holds messages of a conversation with images while the chosen model does not see them", async () => {
  const user = userEvent.setup();
  const settings = { model: "blind", system: "", temperature: null, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
  const row = { id: "c", title: "", created: 1, updated: 1, pinned: false, archived: false, shared: false, model: "blind", running: false, match: null };
  const question = apiMessage({ role: "user", images: [{ name: "cat.png", size: 3, url: "/v1/blobs/a" }] });
  vi.spyOn(api, "readConversation").mockResolvedValue({ ...row, settings, leaf: question.id, messages: [question] });
  const { conversation, sent, field } = shown(BLIND);
  await conversation.load("c");
  await user.type(field, "And now?{Enter}");
  expect(screen.getByText("blind does not see images. Choose a model that does.")).toBeTruthy();
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Send" }).disabled).toBe(true);
  expect(sent).not.toHaveBeenCalled();
});
