/** Rate limits as the page shows and reads them. */
import type { LimitRow } from "../api/types";
import { texts } from "../ui/messages";

export const LIMIT_NAMES = ["requests_per_minute", "tokens_per_minute", "requests_per_day", "concurrent_requests"] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

const LIMIT = /^[1-9]\d{0,8}$/;

/** Returns a typed limit; `null` for an empty text (no limit), `undefined` for an invalid number. */
export function parseLimit(typed: string): number | null | undefined {
  const text = typed.replaceAll(/\s/g, "");
  if (text === "") return null;
  return LIMIT.test(text) ? Number(text) : undefined;
}

/** Returns the limit in force: the lower one of the organisation's and the operator's. */
export function inForce({ own, ceiling }: LimitRow, name: LimitName): number | null {
  const limits = [own[name], ceiling[name]].filter((each) => each !== null);
  return limits.length === 0 ? null : Math.min(...limits);
}

/** Returns the display name of a subject of rate limits. */
export function subjectName({ subject, label }: LimitRow): string {
  if (subject === "organisation") return texts.limitsOfOrganisation;
  if (subject.startsWith("model:")) return texts.limitsOfModel(label);
  return subject.startsWith("project:") ? texts.limitsOfProject(label) : label;
}
