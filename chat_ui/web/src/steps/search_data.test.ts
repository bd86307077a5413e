import { expect, it } from "vitest";
import { methodName, searchOf } from "./search_data";
import { SEARCH, step } from "./steps.fixture";

const search = (data: Record<string, unknown>) => searchOf(step({ kind: "search", name: "beam_search", data }));

it("sorts candidates, the chosen one first, and votes", () => {
  const { candidates, chosen, votes, ...numbers } = search(SEARCH);
  expect(candidates.map((each) => each.path)).toEqual([3, 1, 2, 4]);
  expect(candidates[0]).toEqual({ path: 3, tokens: 40, ended: "stop", alive: false, score: 0.87512, result: "42", text: "<b>It</b> is **42**." });
  expect(candidates[3]).toMatchObject({ score: null, result: null, text: "" });
  expect(chosen).toBe(3);
  expect(votes).toEqual([{ result: "42", weight: 0.875 }, { result: "41", weight: 0.25 }, { result: "", weight: 0 }]);
  expect(numbers).toEqual({ step: 2, paths: 4, generated: 1132, scored: 2000, hasMajority: true });
});

it("reads a running step", () => {
  expect(search({ step: 3, paths: 8, generated: 700 })).toMatchObject({ step: 3, paths: 8, generated: 700, scored: 0, candidates: [], chosen: null });
});

it("survives data of any form", () => {
  const odd = search({ paths: [null, 1, { path: -1 }, { path: 1, ended: {}, alive: 1, score: "x", result: [], text: 5 }, { path: 2, alive: true, ended: [] }], votes: [[{}, 1], "x", [1], ["a", null]], chosen: "1" });
  expect(odd.candidates).toMatchObject([{ path: 1, alive: false }, { path: 2, tokens: null, text: "", ended: null, alive: true, score: null, result: null }]);
  expect([odd.votes, odd.chosen]).toEqual([[{ result: "", weight: 1 }], null]);
  expect(search({ paths: "all", votes: {} })).toMatchObject({ candidates: [], votes: [], paths: 0 });
});

it.each([
  [[["42", 3], ["41", 2]], true],
  [[["41", 2], ["42", 2]], false],
  [[["41", 0.3], ["42", 0.4], ["43", 0.3]], false],
  [Array.from({ length: 20 }, (_, each) => [String(each), 1]), false],
  [[["41", 0], ["42", 0]], false],
])("knows whether a result has the majority of the votes: %j", (votes, hasMajority) => {
  expect(search({ votes }).hasMajority).toBe(hasMajority);
});

it("reads one candidate of each number, the first", () => {
  const repeated = search({ paths: [{ path: 1, text: "one" }, { path: 2, text: "two" }, { path: 1, text: "again" }] });
  expect(repeated.candidates.map(({ path, text }) => [path, text])).toEqual([[1, "one"], [2, "two"]]);
});

it("shortens results, and shows few votes", () => {
  const long = search({ paths: [{ path: 1, alive: true, result: "x".repeat(500) }], votes: Array.from({ length: 20 }, (_, each) => [String(each), each]) });
  expect(long.candidates[0]?.result).toHaveLength(121);
  expect(long.votes.map((each) => each.weight)).toEqual([19, 18, 17, 16, 15, 14, 13, 12]);
});

it("names methods, also ones that it has no word for", () => {
  expect([methodName("self_consistency"), methodName("toString"), methodName("new")]).toEqual(["Vote", "toString", "new"]);
});
