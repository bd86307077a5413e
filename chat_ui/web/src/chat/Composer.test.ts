import { fireEvent, render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import Composer from "./Composer.svelte";

function setUp(running: boolean) {
  const props = { running, onSend: vi.fn(), onStop: vi.fn() };
  render(Composer, props);
  return { ...props, field: screen.getByLabelText<HTMLTextAreaElement>("Write a message") };
}

it("sends by Enter, keeps Shift+Enter as a new line, and empties the field", async () => {
  const { onSend, field } = setUp(false);
  expect(document.activeElement).toBe(field);
  await userEvent.type(field, " one{Shift>}{Enter}{/Shift}two{Enter}");
  expect(onSend).toHaveBeenCalledExactlyOnceWith("one\ntwo");
  expect(field.value).toBe("");
});

it("does not send nothing, nor what an input method is still composing", async () => {
  const { onSend, field } = setUp(false);
  await userEvent.type(field, "  {Enter}");
  await userEvent.type(field, "に");
  await fireEvent.keyDown(field, { key: "Enter", isComposing: true });
  expect(onSend).not.toHaveBeenCalled();
});

it("while running keeps what is written, and stops by button or Escape", async () => {
  const { onSend, onStop, field } = setUp(true);
  await userEvent.type(field, "next{Enter}{Escape}");
  await userEvent.click(screen.getByRole("button", { name: "Stop" }));
  expect(onSend).not.toHaveBeenCalled();
  expect(onStop).toHaveBeenCalledTimes(2);
  expect(field.value).toContain("next");
});
