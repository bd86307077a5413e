import { beforeEach, expect, it, vi, type MockInstance } from "vitest";
import * as api from "./chat_api";
import type { ChatSettings } from "./chat_types";
import * as http from "./http";

const SETTINGS: ChatSettings = { model: "m", system: "", temperature: null, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
let json: MockInstance<typeof http.json>;

beforeEach(() => {
  json = vi.spyOn(http, "json").mockResolvedValue({});
});

const calls: readonly [string, () => unknown, string, string, unknown][] = [
  ["createConversation", () => api.createConversation(SETTINGS), "POST", "/conversations", { settings: SETTINGS }],
  ["readConversation", () => api.readConversation("c/1"), "GET", "/conversations/c%2F1", undefined],
  ["changeConversation", () => api.changeConversation("c", { pinned: true }), "PATCH", "/conversations/c", { pinned: true }],
  ["deleteConversation", () => api.deleteConversation("c"), "DELETE", "/conversations/c", undefined],
  ["regenerate", () => api.regenerate("c", "m/1", SETTINGS), "POST", "/conversations/c/messages/m%2F1/regenerate", { settings: SETTINGS, allowed_once: null }],
  ["stopAnswer", () => api.stopAnswer("c", "m"), "POST", "/conversations/c/messages/m/stop", undefined],
  ["share", () => api.share("c"), "POST", "/conversations/c/share", undefined],
  ["unshare", () => api.unshare("c"), "DELETE", "/conversations/c/share", undefined],
  ["readShared", () => api.readShared("t/1"), "GET", "/shared/t%2F1", undefined],
  ["createPreset", () => api.createPreset("Short", SETTINGS), "POST", "/presets", { name: "Short", settings: SETTINGS }],
  ["changePreset", () => api.changePreset("p", { name: "Long" }), "PATCH", "/presets/p", { name: "Long" }],
  ["listModels", () => api.listModels(), "GET", "/models", undefined],
  ["deletePreset", () => api.deletePreset("p"), "DELETE", "/presets/p", undefined],
];

it.each(calls)("%s calls its route", (_name, action, method, path, body) => {
  void action();
  expect(json).toHaveBeenCalledExactlyOnceWith(method, path, { body, query: {} });
});

it("passes the list's query on", async () => {
  await api.listConversations({ q: "mill", archived: true, cursor: "x", limit: 10 });
  const query = { q: "mill", archived: true, cursor: "x", limit: 10 };
  expect(json).toHaveBeenCalledExactlyOnceWith("GET", "/conversations", { body: undefined, query });
});

it("unwraps lists and sends an import as a file", async () => {
  json.mockResolvedValueOnce({ presets: [2] }).mockResolvedValueOnce({ last: null });
  expect([await api.listPresets(), await api.lastImport()]).toEqual([[2], null]);
  const file = new Blob(["[]"]);
  await api.beginImport(file);
  expect(json).toHaveBeenLastCalledWith("POST", "/import", { file });
});

it("gives the address of an export of all or of some conversations", () => {
  expect(api.exportAddress("csv", null)).toBe("/api/export?format=csv&ids=all");
  expect(api.exportAddress("json", ["a", "b&c"])).toBe("/api/export?format=json&ids=a%2Cb%26c");
});
