import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import { Presets } from "../state/presets.svelte";
import { Settings } from "../state/settings.svelte";
import PresetPicker from "./PresetPicker.svelte";

it("applies, saves and deletes presets", async () => {
  const user = userEvent.setup();
  const [settings, presets] = [new Settings(), new Presets()];
  const saved = { model: "m", system: "Be short.", temperature: 0.5, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
  presets.list = [{ id: "p1", name: "Short", settings: saved }];
  render(PresetPicker, { settings, presets });
  await user.selectOptions(screen.getByLabelText("Preset"), "Short");
  expect(settings.value).toEqual(saved);
  settings.temperature = 1;
  const change = vi.spyOn(api, "changePreset").mockResolvedValue({ id: "p1", name: "Short", settings: settings.value });
  await user.click(screen.getByRole("button", { name: "Keep as preset" }));
  expect(screen.getByLabelText<HTMLInputElement>("Name of the preset").value).toBe("Short");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(change).toHaveBeenCalledExactlyOnceWith("p1", { settings: { ...saved, temperature: 1 } });
  const remove = vi.spyOn(api, "deletePreset").mockResolvedValue();
  await user.click(screen.getByRole("button", { name: "Delete preset" }));
  await waitFor(() => expect(screen.queryByRole("button", { name: "Delete preset" })).toBeNull());
  expect([remove.mock.calls, presets.list]).toEqual([[["p1"]], []]);
});
