/** The API's list of models for tests. */
import type { Model, ModelList, SearchOffer } from "../api/chat_types";

const PRICE = { input_nano: 100, cached_input_nano: 50, output_nano: 400 };
/** A model that searches. */
export const THINKER: Model = { id: "thinker", context: 8192, price: PRICE, ready: true, tools: [], reads_images: false, searches: true };
export const JUDGE: SearchOffer["verifiers"][number] = { id: "judge", price: { ...PRICE, input_nano: 10 }, ready: true, own_names: [] };
/** A chat model as verifier. */
export const GRADER: SearchOffer["verifiers"][number] = { id: "grader", price: PRICE, ready: true, own_names: ["grader", "latest"] };
export const NO_VERIFIER: SearchOffer = { verifiers: [], max_tokens: 131_072, answer_tokens: 4096 };

export function listed(models: readonly Model[], search = NO_VERIFIER): ModelList {
  return { models, search };
}
