/** Texts of API errors in the person's language. */
import type { Failure } from "../api/failure";
import { texts } from "./messages";

/** Locale of the server's messages. */
const SERVERS = "en";

/** Returns the text of an error by its code, its field, the server's message, or its kind, in this order. */
export function errorText({ code, param, detail, kind }: Failure): string {
  return texts.problems[code] ?? texts.fields[param] ?? wordsOf(detail) ?? texts.failures[kind];
}

/** Returns the server's message as an addition to the kind's text, if the page is in the server's language. */
export function serverMessage(failure: Failure): string {
  return failure.detail !== "" && texts.locale === SERVERS ? texts.serverSaid(failure.detail) : "";
}

function wordsOf(detail: string): string | undefined {
  if (detail === "") return undefined;
  return texts.locale === SERVERS ? detail : texts.serverSaid(detail);
}
