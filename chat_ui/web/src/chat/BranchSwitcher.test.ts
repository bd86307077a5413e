import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { Conversation } from "../state/conversation.svelte";
import BranchSwitcher from "./BranchSwitcher.svelte";
import { chatMessage } from "./messages.fixture";

it("is hidden for a single version", () => {
  const conversation = new Conversation({ changed: vi.fn() });
  const message = chatMessage();
  vi.spyOn(conversation, "branchesOf").mockReturnValue([message]);
  render(BranchSwitcher, { message, conversation });
  expect(screen.queryByRole("group")).toBeNull();
});

it("shows the position, and switches to the version before or after", async () => {
  const user = userEvent.setup();
  const conversation = new Conversation({ changed: vi.fn() });
  const versions = [chatMessage(), chatMessage(), chatMessage()];
  const [first, second, third] = versions;
  if (first === undefined || second === undefined || third === undefined) throw new Error("no versions");
  vi.spyOn(conversation, "branchesOf").mockReturnValue(versions);
  const show = vi.spyOn(conversation, "show").mockResolvedValue();
  const { rerender } = render(BranchSwitcher, { message: second, conversation });
  expect(screen.getByText("2 of 3")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Previous version" }));
  await user.click(screen.getByRole("button", { name: "Next version" }));
  expect(show.mock.calls).toEqual([[first], [third]]);
  await rerender({ message: third });
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Next version" }).disabled).toBe(true);
});
