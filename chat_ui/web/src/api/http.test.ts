import { beforeEach, describe, expect, it, vi } from "vitest";
import { call } from "./call";
import { csrfToken, json, onSignedOut, request } from "./http";

const fetcher = vi.fn<typeof fetch>();
const ME = { user: { id: "user-1", email: "a@b.c", name: "Ada" } };
const LAPSED = { error: { message: "You are not signed in.", code: "not_signed_in" } };

beforeEach(() => {
  fetcher.mockReset();
  vi.stubGlobal("fetch", fetcher);
  document.cookie = "headrace-csrf=token=1";
});

function answers(...responses: (readonly [unknown, number])[]): void {
  for (const [body, status] of responses) {
    fetcher.mockResolvedValueOnce(status === 204 ? new Response(null, { status }) : Response.json(body, { status }));
  }
}
const asked = (): string[] => fetcher.mock.calls.map(([url, init]) => `${init?.method} ${String(url)}`);

it("sends CSRF token and JSON body with changes only", async () => {
  answers([ME, 200], [undefined, 204]);
  expect(await call("GET /me")).toEqual(ME);
  await call("DELETE /session");
  const [get, change] = fetcher.mock.calls.map(([, init]) => init);
  expect([get?.headers, get?.body]).toEqual([{}, undefined]);
  expect(change?.headers).toEqual({ "content-type": "application/json", "x-csrf-token": "token=1" });
  expect([change?.body, change?.credentials, change?.redirect]).toEqual(["{}", "same-origin", "error"]);
});

it("prefers the cookie with the prefix __Host-", () => {
  vi.spyOn(document, "cookie", "get").mockReturnValue("headrace-csrf=old; __Host-headrace-csrf=new");
  expect(csrfToken()).toBe("new");
});

it("fills path parameters and leaves out empty query parameters", async () => {
  answers([{}, 200], [{}, 200]);
  await call("GET /invitations/{token}", { path: { token: "a/b" } });
  await json("GET", "/usage", { query: { days: 30, cursor: null, q: "" } });
  expect(asked()).toEqual(["GET /api/invitations/a%2Fb", "GET /api/usage?days=30"]);
});

describe("with an expired access cookie", () => {
  it("refreshes once for concurrent requests", async () => {
    answers([LAPSED, 401], [LAPSED, 401], [undefined, 204], [ME, 200], [ME, 200]);
    expect(await Promise.all([call("GET /me"), call("GET /me")])).toEqual([ME, ME]);
    expect(asked().filter((name) => name.endsWith("/refresh"))).toHaveLength(1);
  });

  it("notifies listeners that the session has ended", async () => {
    const ended = vi.fn();
    const deaf = onSignedOut(ended);
    answers([LAPSED, 401], [LAPSED, 401]);
    await expect(call("GET /me")).rejects.toMatchObject({ failure: { kind: "unauthorized", code: "not_signed_in" } });
    expect(ended).toHaveBeenCalledOnce();
    deaf();
  });

  it("does not refresh after a wrong password", async () => {
    answers([{ error: { message: "wrong", code: "invalid_credentials" } }, 401]);
    const body = { email: "a@b.c", password: "x" };
    await expect(call("POST /session", { body })).rejects.toMatchObject({ failure: { code: "invalid_credentials" } });
    expect(fetcher).toHaveBeenCalledOnce();
  });
});

it("turns network errors and invalid responses into ApiErrors, but not aborts", async () => {
  fetcher.mockRejectedValueOnce(new TypeError("Failed to fetch"));
  await expect(json("GET", "/me")).rejects.toMatchObject({ failure: { kind: "network", code: "network" } });
  fetcher.mockResolvedValueOnce(new Response("<html>"));
  await expect(json("GET", "/me")).rejects.toMatchObject({ failure: { kind: "unreadable" } });
  fetcher.mockRejectedValueOnce(new DOMException("aborted", "AbortError"));
  await expect(request("GET", "/me")).rejects.toThrow("aborted");
});
