import { expect, it } from "vitest";
import type { ChatSettings } from "../api/chat_types";
import { Settings } from "./settings.svelte";

const GIVEN: ChatSettings = { model: "m", system: "Be short.", temperature: 0.5, top_p: 0.9, repetition_penalty: 1.1, max_tokens: 100, tools_off: ["weather"], tools_allowed: [], test_time_compute: { method: "self_consistency", n: 4, verifier: "" }, vector_stores: ["vs_1"] };

it("gives back what it was given", () => {
  const settings = new Settings();
  settings.replace(GIVEN);
  expect(settings.value).toEqual(GIVEN);
});

it("starts with the model's defaults, and counts a blank system prompt as none", () => {
  const settings = new Settings();
  settings.system = " \n";
  const none = { temperature: null, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
  expect(settings.value).toEqual({ model: "", system: "", ...none });
});

it("keeps its model if the new settings have none", () => {
  const settings = new Settings();
  settings.model = "chosen";
  settings.replace({ ...GIVEN, model: "" });
  expect([settings.model, settings.system]).toEqual(["chosen", "Be short."]);
});

it("keeps one consent for each tool, and withdraws it", () => {
  const settings = new Settings();
  for (const each of ["mcp.a.x@1", "mcp.a.y@1", "mcp.a.x@2"]) settings.allow(each);
  expect(settings.value.tools_allowed).toEqual(["mcp.a.y@1", "mcp.a.x@2"]);
  settings.withdraw("mcp.a.x");
  expect(settings.value.tools_allowed).toEqual(["mcp.a.y@1"]);
});
