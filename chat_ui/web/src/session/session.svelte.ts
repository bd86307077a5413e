/**
 * The browser session: the signed-in user as the server reports it. The tokens are in `HttpOnly` cookies, which are
 * refreshed in the background, so that downloads by plain links work after the access cookie's quarter of an hour too.
 */
import { call } from "../api/call";
import { ApiError, type Failure } from "../api/failure";
import { csrfToken, onSignedOut, refresh } from "../api/http";
import type { Me, PendingSignIn, Role, SignIn, SignUp } from "../api/types";
import { drafts } from "../state/drafts";

export type SessionStatus = "loading" | "signed-in" | "signed-out" | "unreachable";

const RENEW_MS = 10 * 60_000;
const RANK: readonly Role[] = ["viewer", "member", "admin", "owner"];

export class Session {
  status = $state<SessionStatus>("loading");
  me = $state.raw<Me | null>(null);
  /** Why the session could not be read. */
  failure = $state.raw<Failure | null>(null);
  #renewed = Date.now();
  /** Notifies other tabs; null in browsers without `BroadcastChannel`. */
  readonly #tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("headrace-session");

  /** Reads the signed-in user from the server, unless the cookies show that there is no session. */
  async load(): Promise<void> {
    if (csrfToken() === "") return this.#end(); // the CSRF cookie lives as long as a session can
    try {
      this.#begin(await call("GET /me"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.failure.kind === "unauthorized") this.#end();
      else this.#unreachable(error.failure);
    }
  }

  /** Whether the user has this role or a higher one. */
  may(role: Role): boolean {
    return this.me !== null && RANK.indexOf(this.me.role) >= RANK.indexOf(role);
  }

  /** Signs in by password; returns a challenge if a code is needed (`completeSignIn`), else "". */
  async signIn(body: SignIn): Promise<string> {
    return this.#beginOrAsk(await call("POST /session", { body }));
  }

  /** Signs up; returns a challenge if the person has an account that needs a code (`completeSignIn`), else "". */
  async signUp(body: SignUp): Promise<string> {
    return this.#beginOrAsk(await call("POST /sign-up", { body }));
  }

  /** Ends a sign-in by a code of the second factor. */
  async completeSignIn(challenge: string, code: string): Promise<void> {
    this.#beginOrAsk(await call("POST /session/second-factor", { body: { challenge, code } }));
  }

  /** Signs in by the link that the launcher printed. */
  async start(invitation: string): Promise<void> {
    this.#begin(await call("POST /start", { body: { invitation } }));
    this.#tabs?.postMessage("in");
  }

  async changePassword(old_password: string, password: string): Promise<void> {
    this.#begin(await call("POST /password", { body: { old_password, password } }));
  }

  /** Signs out; leaves for the identity provider's sign-out page if the session began there. */
  async signOut({ everywhere = false } = {}): Promise<void> {
    let providersPage: string | null = null;
    if (everywhere) await call("DELETE /sessions");
    else if (this.me?.by_provider === true) providersPage = (await call("POST /oidc/sign-out")).url;
    else await call("DELETE /session");
    drafts.clear();
    this.#end();
    this.#tabs?.postMessage("out");
    if (providersPage !== null) location.assign(providersPage);
  }

  /** Refreshes the cookies periodically and follows other tabs, until the returned function is called. */
  startRefreshing(): () => void {
    const renew = (): void => void this.#renew();
    const hear = (event: MessageEvent): void => (event.data === "out" ? this.#end() : void this.load());
    const timer = setInterval(renew, RENEW_MS);
    const deaf = onSignedOut(() => this.#end());
    document.addEventListener("visibilitychange", renew);
    this.#tabs?.addEventListener("message", hear);
    return () => {
      clearInterval(timer);
      deaf();
      document.removeEventListener("visibilitychange", renew);
      this.#tabs?.removeEventListener("message", hear);
    };
  }

  async #renew(): Promise<void> {
    if (this.status !== "signed-in" || document.hidden || Date.now() - this.#renewed < RENEW_MS / 2) return;
    this.#renewed = Date.now();
    try {
      await refresh();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next request refreshes again and reports the error
    }
  }

  #beginOrAsk(answer: Me | PendingSignIn): string {
    if ("challenge" in answer) return answer.challenge;
    this.#begin(answer);
    this.#tabs?.postMessage("in");
    return "";
  }

  #begin(me: Me): void {
    this.me = me;
    this.failure = null;
    this.status = "signed-in";
  }

  #end(): void {
    this.me = null;
    this.status = "signed-out";
  }

  #unreachable(failure: Failure): void {
    this.failure = failure;
    this.status = "unreachable";
  }
}

export const session = new Session();
