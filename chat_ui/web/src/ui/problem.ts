/** A failure of the chat's API in the person's language. */
import type { Failure } from "../api/failure";
import { texts } from "./messages";

/** The language of the server's own words. */
const SERVERS = "en";

/** By what the server calls it; by its own words where there are no better ones. */
export function problemText({ code, param, detail, kind }: Failure): string {
  return texts.problems[code] ?? texts.fields[param] ?? wordsOf(detail) ?? texts.failures[kind];
}

/** What the server added to what is known by its kind, to whom it speaks; elsewhere the kind has to do. */
export function addedTo(failure: Failure): string {
  return failure.detail !== "" && texts.locale === SERVERS ? texts.serverSaid(failure.detail) : "";
}

function wordsOf(detail: string): string | undefined {
  if (detail === "") return undefined;
  return texts.locale === SERVERS ? detail : texts.serverSaid(detail);
}
