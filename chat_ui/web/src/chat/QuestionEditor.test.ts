import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { Conversation } from "../state/conversation.svelte";
import { chatMessage } from "./messages.fixture";
import QuestionEditor from "./QuestionEditor.svelte";

function shown(accepted: boolean) {
  const conversation = new Conversation({ changed: vi.fn() });
  const edit = vi.spyOn(conversation, "edit").mockResolvedValue(accepted);
  const [message, onClose] = [chatMessage({ role: "user", text: "Why?" }), vi.fn()];
  render(QuestionEditor, { message, conversation, onClose });
  return { edit, message, onClose };
}

it("has the focus and the old text, and closes once the new one is accepted", async () => {
  const user = userEvent.setup();
  const { edit, message, onClose } = shown(true);
  await user.keyboard("{End} Really?{Enter}");
  expect(edit).toHaveBeenCalledExactlyOnceWith(message, "Why? Really?");
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
});

it("stays open if the server refuses, sends no blank text, and closes with Escape", async () => {
  const user = userEvent.setup();
  const { edit, onClose } = shown(false);
  await user.keyboard("{Enter}");
  expect(onClose).not.toHaveBeenCalled();
  await user.clear(screen.getByRole("textbox"));
  await user.keyboard(" {Enter}");
  expect(edit).toHaveBeenCalledOnce();
  await user.keyboard("{Escape}");
  expect(onClose).toHaveBeenCalledOnce();
});
