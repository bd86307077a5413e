import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import type { Model } from "../api/chat_types";
import { ApiError, failureOf } from "../api/failure";
import { Models } from "./models.svelte";
import { listed } from "./models.fixture";

const model = (id: string, ready: boolean): Model => ({ id, context: 100, price: null, ready, tools: [], reads_images: false, searches: false });

it("loads, keeps its list when a later load fails, and recovers", async () => {
  const models = new Models();
  const list = vi.spyOn(api, "listModels").mockResolvedValue(listed([model("a", true)]));
  await models.load();
  list.mockRejectedValueOnce(new ApiError(failureOf("network")));
  await models.load();
  expect([models.loaded, models.list.length, models.failure?.kind]).toEqual([true, 1, "network"]);
  await models.load();
  expect(models.failure).toBeNull();
  list.mockRejectedValueOnce(new RangeError("a bug"));
  await expect(models.load()).rejects.toThrow("a bug");
});

it("chooses the wanted model, else one that is ready and has tools, else one that is ready, else any", async () => {
  const models = new Models();
  expect(models.choose("a")).toBe("");
  const list = vi.spyOn(api, "listModels").mockResolvedValue(listed([model("a", false), model("b", true)]));
  await models.load();
  expect([models.choose("a"), models.choose("gone")]).toEqual(["a", "b"]);
  list.mockResolvedValue(listed([model("b", true), { ...model("c", false), tools: ["math"] }, { ...model("d", true), tools: ["math"] }]));
  await models.load();
  expect([models.choose("b"), models.choose("")]).toEqual(["b", "d"]);
  list.mockResolvedValue(listed([model("a", false)]));
  await models.load();
  expect(models.choose("gone")).toBe("a");
});
