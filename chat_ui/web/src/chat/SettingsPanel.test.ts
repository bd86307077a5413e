import { fireEvent, render, screen, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { NO_VERIFIER, THINKER } from "../state/models.fixture";
import { Presets } from "../state/presets.svelte";
import { Settings } from "../state/settings.svelte";
import SettingsPanel from "./SettingsPanel.svelte";

it("takes the focus, closes with Escape, and returns the focus", async () => {
  const user = userEvent.setup();
  const opener = document.body.appendChild(document.createElement("button"));
  opener.focus();
  const onClose = vi.fn();
  const { unmount } = render(SettingsPanel, { settings: new Settings(), presets: new Presets(), onClose });
  expect(document.activeElement).toBe(screen.getByRole("heading", { name: "Settings" }));
  await user.keyboard("{Escape}");
  expect(onClose).toHaveBeenCalledOnce();
  unmount();
  expect(document.activeElement).toBe(opener);
});

it("takes whole positive numbers of tokens only", async () => {
  const settings = new Settings();
  render(SettingsPanel, { settings, presets: new Presets(), onClose: vi.fn() });
  const field = screen.getByRole("spinbutton");
  const after: (number | null)[] = [];
  for (const value of ["100", "0", "1.5", "7", ""]) {
    await fireEvent.input(field, { target: { value } });
    after.push(settings.maxTokens);
  }
  expect(after).toEqual([100, null, null, 7, null]);
});

it("switches tools of the selected model off and on", async () => {
  const user = userEvent.setup();
  const settings = new Settings();
  const model = { ...THINKER, tools: ["weather", "mcp.shop.search"] };
  render(SettingsPanel, { settings, presets: new Presets(), model, onClose: vi.fn() });
  await user.click(screen.getByRole("switch", { name: "Weather" }));
  await user.click(screen.getByRole("switch", { name: "shop.search" }));
  expect(settings.value.tools_off).toEqual(["weather", "mcp.shop.search"]);
  await user.click(screen.getByRole("switch", { name: "Weather" }));
  expect(settings.value.tools_off).toEqual(["mcp.shop.search"]);
  expect(screen.getByRole("switch", { name: "Weather" })).toHaveProperty("checked", true);
});

it("offers to think longer with models that search, whose paths are varied", async () => {
  const settings = new Settings();
  const { rerender } = render(SettingsPanel, { settings, presets: new Presets(), model: THINKER, offer: NO_VERIFIER, onClose: vi.fn() });
  await userEvent.click(screen.getByRole("radio", { name: /^Vote/ }));
  expect(screen.getByText("0.8 (default)")).toBeTruthy();
  await rerender({ model: { ...THINKER, searches: false } });
  expect(screen.queryByRole("radio")).toBeNull();
  expect(screen.getByText("0.3 (default)")).toBeTruthy();
});

it("shows no switches for a model without tools", () => {
  render(SettingsPanel, { settings: new Settings(), presets: new Presets(), onClose: vi.fn() });
  expect(screen.queryByRole("switch")).toBeNull();
});

it("shows the consents of the conversation, and withdraws one", async () => {
  const settings = new Settings();
  settings.allow("mcp.shop.search@0");
  const onWithdraw = vi.fn((tool: string) => settings.withdraw(tool));
  render(SettingsPanel, { settings, presets: new Presets(), onWithdraw, onClose: vi.fn() });
  const group = screen.getByRole("group", { name: "Allowed in this conversation", description: /until you switch them off/ });
  await userEvent.click(within(group).getByRole("switch", { name: "shop.search" }));
  expect(onWithdraw).toHaveBeenCalledExactlyOnceWith("mcp.shop.search");
  expect(screen.queryByRole("switch")).toBeNull();
});
