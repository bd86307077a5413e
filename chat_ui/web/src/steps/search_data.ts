/** Steps of a search for an answer, decoded from untrusted JSON: models wrote the texts and results. */
import type { Step } from "../api/chat_types";
import { asCount, asList, asNumber, type Json } from "../api/json";
import { count } from "../ui/format";
import { texts } from "../ui/messages";
import { objects, shortened, text } from "./step_data";

/** A path that a search compared with others. */
export interface Candidate {
  readonly path: number;
  readonly tokens: number | null;
  /** Empty: not kept. */
  readonly text: string;
  readonly ended: "stop" | "length" | null;
  readonly alive: boolean;
  readonly score: number | null;
  readonly result: string | null;
}
export interface Vote {
  /** Empty: the answers had no result. */
  readonly result: string;
  readonly weight: number;
}
export interface Search {
  /** Number of the step within the search, from 1; null: not known. */
  readonly step: number | null;
  /** Number of paths that the running step goes on with, or of the candidates. */
  readonly paths: number;
  /** Tokens that all paths have generated so far, and those that the verifier has read. */
  readonly generated: number;
  readonly scored: number;
  /** Paths that were compared, answers and beginnings: the chosen one first, then by descending score. */
  readonly candidates: readonly Candidate[];
  readonly chosen: number | null;
  /** By descending weight. */
  readonly votes: readonly Vote[];
  /** Whether the first result has more than half of the weight of all votes. */
  readonly hasMajority: boolean;
}

/** Most candidates and votes that a card shows. */
const MAX_CANDIDATES = 256;
const MAX_VOTES = 8;
/** Most characters of a result. */
const MAX_RESULT = 120;

/** Returns the step of a search. */
export function searchOf(step: Step): Search {
  const { data } = step;
  const chosen = asCount(data["chosen"]);
  const all = objects(data["paths"], candidate).slice(0, MAX_CANDIDATES);
  const numbered = new Map(all.toReversed().map((each) => [each.path, each]));
  const candidates = [...numbered.values()].sort(
    (left, right) => Number(right.path === chosen) - Number(left.path === chosen) || (right.score ?? -Infinity) - (left.score ?? -Infinity) || left.path - right.path,
  );
  const votes = asList(data["votes"]).map(vote).filter((each) => each !== null).toSorted((left, right) => right.weight - left.weight);
  const total = votes.reduce((sum, each) => sum + each.weight, 0);
  return {
    step: asCount(data["step"]),
    paths: asCount(data["paths"]) ?? candidates.length,
    generated: asCount(data["generated"]) ?? 0,
    scored: asCount(data["scored"]) ?? 0,
    candidates,
    chosen,
    votes: votes.slice(0, MAX_VOTES),
    hasMajority: (votes[0]?.weight ?? 0) > total / 2,
  };
}

/** Returns the tokens that all paths of a search have generated and that its verifier has read, in words; those that are 0 not. */
export function searchTokens({ generated, scored }: Search): string[] {
  return [
    ...(generated > 0 ? [texts.searchTokens(count(generated), generated)] : []),
    ...(scored > 0 ? [texts.searchScored(count(scored))] : []),
  ];
}

/** Returns the name of a search's method. */
export function methodName(method: string): string {
  const names: Readonly<Record<string, string>> = texts.searchMethods;
  return (Object.hasOwn(names, method) ? names[method] : undefined) ?? method;
}

function candidate(value: Json): Candidate | null {
  const path = asCount(value["path"]);
  if (path === null) return null;
  const ended = value["ended"];
  const result = value["result"];
  return {
    path,
    tokens: asCount(value["tokens"]),
    text: text(value["text"]),
    ended: ended === "stop" || ended === "length" ? ended : null,
    alive: value["alive"] === true,
    score: asNumber(value["score"]),
    result: typeof result === "string" ? shortened(result, MAX_RESULT) : null,
  };
}

function vote(value: unknown): Vote | null {
  const [result, weight] = asList(value);
  const known = asNumber(weight);
  return known === null ? null : { result: shortened(text(result), MAX_RESULT), weight: known };
}
