import { beforeEach, expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import type { ChatSettings, Preset } from "../api/chat_types";
import { Presets } from "./presets.svelte";

const SETTINGS: ChatSettings = { model: "m", system: "", temperature: 0, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
const preset = (id: string, name: string): Preset => ({ id, name, settings: SETTINGS });
const presets = new Presets();

beforeEach(async () => {
  vi.spyOn(api, "listPresets").mockResolvedValue([preset("p1", "Short"), preset("p2", "Long")]);
  await presets.load();
});

it("creates a preset under a new name", async () => {
  const create = vi.spyOn(api, "createPreset").mockResolvedValue(preset("p3", "Poems"));
  expect((await presets.save("Poems", SETTINGS)).id).toBe("p3");
  expect(create).toHaveBeenCalledExactlyOnceWith("Poems", SETTINGS);
  expect(presets.list.map(({ id }) => id)).toEqual(["p1", "p2", "p3"]);
});

it("changes the preset that has the name already", async () => {
  const create = vi.spyOn(api, "createPreset");
  const change = vi.spyOn(api, "changePreset").mockResolvedValue(preset("p1", "Short"));
  await presets.save("Short", SETTINGS);
  expect(change).toHaveBeenCalledExactlyOnceWith("p1", { settings: SETTINGS });
  expect(create).not.toHaveBeenCalled();
  expect(presets.list.map(({ id }) => id)).toEqual(["p2", "p1"]);
});

it("drops a preset only once the server has deleted it", async () => {
  const remove = vi.spyOn(api, "deletePreset").mockRejectedValueOnce(new Error("no"));
  await expect(presets.remove("p1")).rejects.toThrow("no");
  expect(presets.list).toHaveLength(2);
  remove.mockResolvedValueOnce(undefined);
  await presets.remove("p1");
  expect(presets.list.map(({ id }) => id)).toEqual(["p2"]);
});
