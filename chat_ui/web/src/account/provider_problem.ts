/** Error of a sign-in at the identity provider, whose code the server puts into the URL's fragment. */
import { texts } from "../ui/messages";

/** Returns the error's text and removes it from the URL; empty if there is none. */
export function takeProviderProblem(): string {
  const code = new URLSearchParams(location.hash.replace(/^#/, "")).get("problem");
  if (code === null) return "";
  history.replaceState(null, "", location.pathname);
  return (Object.hasOwn(texts.problems, code) ? texts.problems[code] : undefined) ?? texts.failures.server;
}
