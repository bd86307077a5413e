import { expect, it } from "vitest";
import type { SearchSettings } from "../api/chat_types";
import { GRADER, JUDGE, NO_VERIFIER, THINKER } from "../state/models.fixture";
import { type Method, methodsOf, mostOf, numberOf, offerFor, pathsOf, searchBy } from "./think_longer";

const OFFER = { ...NO_VERIFIER, verifiers: [{ ...JUDGE, id: "away", ready: false }, JUDGE, GRADER] };
const search = (method: Method, n: number | null = null, verifier = ""): SearchSettings => ({ method, n, verifier });

it("offers methods with a verifier only where one is served, and the current one", () => {
  expect(methodsOf(NO_VERIFIER, null)).toEqual(["self_consistency"]);
  expect(methodsOf(OFFER, null)).toEqual(["self_consistency", "best_of_n", "weighted_best_of_n", "beam_search"]);
  expect(methodsOf(NO_VERIFIER, search("best_of_n", 8, "judge"))).toEqual(["self_consistency", "best_of_n"]);
  expect(methodsOf(OFFER, search("dvts", 8, "judge")).at(-1)).toBe("dvts");
});

it("offers a chat model as the verifier of other models", () => {
  expect(offerFor(THINKER, OFFER)).toEqual(OFFER);
  for (const id of ["grader", "latest"]) {
    expect(offerFor({ ...THINKER, id }, OFFER).verifiers.map((each) => each.id)).toEqual(["away", "judge"]);
  }
});

it("offers a few numbers of paths, and the current one", () => {
  expect(pathsOf(search("self_consistency"))).toEqual([4, 8, 16]);
  expect(pathsOf(search("best_of_n", 5, "judge"))).toEqual([4, 5, 8, 16]);
  expect(pathsOf(search("beam_search", null, "judge"))).toEqual([2, 4, 8]);
  expect([numberOf(search("self_consistency")), numberOf(search("lookahead")), numberOf(search("dvts", 3))]).toEqual([8, 4, 3]);
});

it("chooses a verifier that is ready, or keeps the current one", () => {
  expect(searchBy("self_consistency", OFFER, search("best_of_n", 4, "judge"))).toEqual(search("self_consistency", 8));
  expect(searchBy("best_of_n", OFFER, null)).toEqual(search("best_of_n", 8, "judge"));
  expect(searchBy("beam_search", OFFER, search("best_of_n", 4, "away"))).toEqual(search("beam_search", 4, "away"));
  expect(searchBy("best_of_n", NO_VERIFIER, search("best_of_n", 4, "gone")).verifier).toBe("gone");
});

it.each([
  ["a vote, with answers up to the limit", search("self_consistency", 4), null, [16_384, 0, 16_384 * 400]],
  ["a vote, with shorter answers", search("self_consistency", 4), 100, [400, 0, 160_000]],
  ["the best answer, whose verifier reads the conversation too", search("best_of_n", 4, "judge"), 100, [49_752, 49_752, 49_752 * 410]],
  ["steps, up to the gateway's limit", search("beam_search", 4, "judge"), null, [131_072, 131_072, 131_072 * 410]],
  ["a chat model, which also writes grades", search("best_of_n", 4, "grader"), 100, [50_232, 50_232, 50_232 * 500 + 4 * 400, 4]],
  ["steps that a chat model grades", search("beam_search", 4, "grader"), null, [131_072, 131_072, 131_072 * 500 + 1024 * 400, 1024]],
  ["a verifier that is not served", search("best_of_n", 4, "gone"), 100, [49_752, 49_752, null]],
] as const)("bounds the cost of %s", (_name, settings, maxTokens, [generated, read, nano, graded = 0]) => {
  expect(mostOf(settings, THINKER, OFFER, maxTokens)).toEqual({ generated, read, graded, nano });
});

it("knows no cost of a model without a price", () => {
  expect(mostOf(search("self_consistency", 4), { ...THINKER, price: null }, OFFER, null).nano).toBeNull();
});
