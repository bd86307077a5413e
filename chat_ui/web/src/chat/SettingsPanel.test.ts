import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { Parameters } from "../state/parameters.svelte";
import SettingsPanel from "./SettingsPanel.svelte";

function setUp() {
  const parameters = new Parameters();
  const onClose = vi.fn();
  return { parameters, onClose, ...render(SettingsPanel, { parameters, onClose }) };
}

it("takes the focus, and gives it back when it closes", () => {
  const opener = document.body.appendChild(document.createElement("button"));
  opener.focus();
  const { unmount } = setUp();
  expect(document.activeElement?.textContent).toBe("Settings");
  unmount();
  expect(document.activeElement).toBe(opener);
  opener.remove();
});

it("sets the prompt and the longest answer, which falls back to the default", async () => {
  const { parameters } = setUp();
  await userEvent.type(screen.getByLabelText("System prompt"), "Be brief.");
  const field = screen.getByLabelText("Longest answer (tokens)");
  await userEvent.type(field, "12");
  expect(parameters).toMatchObject({ system: "Be brief.", maxTokens: 12 });
  await userEvent.clear(field);
  expect(parameters.maxTokens).toBeNull();
  await userEvent.type(field, "0");
  expect(parameters.maxTokens).toBeNull();
});

it("closes by Escape", async () => {
  const { onClose } = setUp();
  await userEvent.keyboard("{Escape}");
  expect(onClose).toHaveBeenCalledOnce();
});
