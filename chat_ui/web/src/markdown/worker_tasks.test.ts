import { expect, it } from "vitest";
import { perform } from "./worker_tasks";

it("highlights known languages, renders formulas, and loads both libraries", async () => {
  expect(JSON.stringify(await perform({ type: "code", code: "x = 1", language: "python" }))).toContain("hljs-number");
  expect(await perform({ type: "code", code: "x", language: "klingon" })).toBeNull();
  expect(await perform({ type: "formula", tex: "x", display: true })).toContain("<math");
  expect(await perform({ type: "prepare" })).toBeNull();
});
