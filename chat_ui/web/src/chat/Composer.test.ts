import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import { Conversation } from "../state/conversation.svelte";
import { drafts } from "../state/drafts";
import Composer from "./Composer.svelte";

function shown(send: (text: string) => Promise<boolean>) {
  const conversation = new Conversation({ changed: vi.fn() });
  const sent = vi.spyOn(conversation, "send").mockImplementation(send);
  render(Composer, { conversation, usable: true });
  return { sent, conversation, field: screen.getByLabelText<HTMLTextAreaElement>("Write a message") };
}

beforeEach(() => drafts.clear());

it("sends trimmed text with Enter, and starts a line with Shift+Enter", async () => {
  const user = userEvent.setup();
  const { sent, field } = shown(() => Promise.resolve(true));
  expect(document.activeElement).toBe(field);
  await user.keyboard(" one{Shift>}{Enter}{/Shift}two {Enter}");
  expect(sent).toHaveBeenCalledExactlyOnceWith("one\ntwo", [], []);
  expect(field.value).toBe("");
});

it("does not send while an input method is composing, nor blank text", async () => {
  const user = userEvent.setup();
  const { sent, field } = shown(() => Promise.resolve(true));
  await user.keyboard(" {Enter}");
  await user.keyboard("にほん");
  await fireEvent.keyDown(field, { key: "Enter", isComposing: true });
  expect(sent).not.toHaveBeenCalled();
});

it("gives the text back if the server does not accept it", async () => {
  const user = userEvent.setup();
  const { field } = shown(() => Promise.resolve(false));
  await user.keyboard("Hello{Enter}");
  await waitFor(() => expect(field.value).toBe("Hello"));
});

it("keeps a draft until it is sent", async () => {
  const user = userEvent.setup();
  shown(() => Promise.resolve(true));
  await user.keyboard("Hel");
  expect(Object.values({ ...sessionStorage })).toContain("Hel");
  await user.keyboard("{Enter}");
  await waitFor(() => expect(Object.values({ ...sessionStorage })).toEqual([]));
});
