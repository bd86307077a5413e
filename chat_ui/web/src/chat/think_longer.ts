/** Choices of "Think longer" (a search for the answer), and the most that a search can use. */
import type { Model, SearchOffer, SearchSettings } from "../api/chat_types";

export type Method = SearchSettings["method"];

const VERIFIED: readonly Method[] = ["best_of_n", "weighted_best_of_n", "beam_search"];
/** The gateway's defaults of methods with and without steps (`gateway/openai/test_time_compute.py`). */
const ANSWERS = 8;
const PATHS = 4;
const EXPANSIONS = 4;
const MAX_STEPS = 64;
/** Most tokens that a verifier is assumed to read for each token of the model, and a judge beside them (`router/messages/search.py`). */
const VERIFIER_TOKENS = 1.5;
const JUDGE_TOKENS = 80;

const isStepwise = (method: Method): boolean => ["beam_search", "dvts", "lookahead"].includes(method);
const isVerified = (method: Method): boolean => method !== "self_consistency";

/** Returns what searches for the model's answers can use: a chat model grades the answers of other models only. */
export function offerFor(model: Model, offer: SearchOffer): SearchOffer {
  return { ...offer, verifiers: offer.verifiers.filter(({ own_names }) => !own_names.includes(model.id)) };
}

/** Returns the methods to choose from: those with a verifier only if one is served. The current one is always there. */
export function methodsOf(offer: SearchOffer, current: SearchSettings | null): readonly Method[] {
  const methods: readonly Method[] = ["self_consistency", ...(offer.verifiers.length > 0 ? VERIFIED : [])];
  return current === null || methods.includes(current.method) ? methods : [...methods, current.method];
}

/** Returns the numbers of paths to choose from, the current one among them. */
export function pathsOf(search: SearchSettings): readonly number[] {
  const usual = isStepwise(search.method) ? [2, 4, 8] : [4, 8, 16];
  return [...new Set([...usual, numberOf(search)])].sort((left, right) => left - right);
}

/** Returns the number of paths of a search. */
export function numberOf(search: SearchSettings): number {
  return search.n ?? (isStepwise(search.method) ? PATHS : ANSWERS);
}

/** Returns the settings of a search by `method`, with the current verifier if it is served, else with one that is ready. */
export function searchBy(method: Method, offer: SearchOffer, current: SearchSettings | null): SearchSettings {
  const { verifiers } = offer;
  const known = verifiers.find(({ id }) => id === current?.verifier) ?? verifiers.find(({ ready }) => ready) ?? verifiers[0];
  const verifier = isVerified(method) ? (known?.id ?? current?.verifier ?? "") : "";
  return { method, n: isStepwise(method) ? PATHS : ANSWERS, verifier };
}

/** The most that a search can use beside the answer. */
export interface Most {
  readonly generated: number;
  /** Tokens that the verifier reads; 0 without one. */
  readonly read: number;
  /** Tokens that the verifier writes: grades, if it is a chat model. */
  readonly graded: number;
  /** Cost in nano-USD; null if a price is not known. */
  readonly nano: number | null;
}

/** Returns the most that a search can use: the budget that the gateway sets for it, at most its limit. */
export function mostOf(search: SearchSettings, model: Model, offer: SearchOffer, maxTokens: number | null): Most {
  const [stepwise, verified] = [isStepwise(search.method), isVerified(search.method)];
  const paths = numberOf(search) * (stepwise ? EXPANSIONS : 1);
  const candidates = search.method === "lookahead" ? 2 * paths : paths; // each with a step of its rollout
  const answer = Math.min(maxTokens ?? offer.answer_tokens, model.context);
  const verifier = offer.verifiers.find(({ id }) => id === search.verifier);
  const judge = verifier !== undefined && verifier.own_names.length > 0;
  const each = verified ? Math.ceil(VERIFIER_TOKENS * (model.context + answer + (judge ? JUDGE_TOKENS : 0))) : answer;
  const budget = Math.max(candidates, Math.min(offer.max_tokens, candidates * each * (stepwise ? MAX_STEPS : 1)));
  const read = verified ? budget : 0;
  const graded = judge ? Math.min(budget, paths * (stepwise ? MAX_STEPS : 1)) : 0;
  const price = verifier?.price ?? null;
  const verifying = !verified ? 0 : price === null ? null : read * price.input_nano + graded * price.output_nano;
  const nano = model.price === null || verifying === null ? null : budget * model.price.output_nano + verifying;
  return { generated: budget, read, graded, nano };
}
