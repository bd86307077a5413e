import { waitFor } from "@testing-library/svelte";
import { beforeEach, expect, it, vi, type MockInstance } from "vitest";
import * as api from "../api/call";
import { ApiError, failureOf } from "../api/failure";
import type { Me } from "../api/types";
import { ADA } from "./example_user";
import { Session } from "./session.svelte";

const ME: Me = { ...ADA, role: "admin" };
let call: MockInstance<typeof api.call>;

beforeEach(() => {
  call = vi.spyOn(api, "call").mockReset();
  document.cookie = "headrace-csrf=token";
});

it("asks nothing without a session's cookies", async () => {
  document.cookie = "headrace-csrf=; max-age=0";
  const session = new Session();
  await session.load();
  expect(session.status).toBe("signed-out");
  expect(call).not.toHaveBeenCalled();
});

it("loads the signed-in user and checks roles", async () => {
  call.mockResolvedValueOnce(ME);
  const session = new Session();
  await session.load();
  expect([session.status, session.me?.user.name]).toEqual(["signed-in", "Ada"]);
  expect([session.may("member"), session.may("admin"), session.may("owner")]).toEqual([true, true, false]);
});

it("distinguishes a signed-out user from an unreachable server", async () => {
  const session = new Session();
  call.mockRejectedValueOnce(new ApiError(failureOf("unauthorized")));
  await session.load();
  expect(session.status).toBe("signed-out");
  call.mockRejectedValueOnce(new ApiError(failureOf("network")));
  await session.load();
  expect([session.status, session.failure?.kind]).toEqual(["unreachable", "network"]);
});

it("leaves for the provider's page when a session that began there is signed out", async () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { ...location, assign });
  const session = new Session();
  call.mockResolvedValueOnce({ ...ME, by_provider: true });
  await session.load();
  call.mockResolvedValueOnce({ url: "https://sso.example/end" });
  await session.signOut();
  expect(call).toHaveBeenLastCalledWith("POST /oidc/sign-out");
  expect([session.status, assign.mock.calls]).toEqual(["signed-out", [["https://sso.example/end"]]]);
  vi.unstubAllGlobals();
});

it("signs in and out, also everywhere, and other tabs follow", async () => {
  call.mockResolvedValue(ME);
  const [session, other] = [new Session(), new Session()];
  const stop = other.startRefreshing();
  await session.signIn({ email: "ada@example.org", password: "correct horse" });
  expect(session.status).toBe("signed-in");
  await waitFor(() => expect(other.status).toBe("signed-in"));
  await session.signOut({ everywhere: true });
  expect(call).toHaveBeenLastCalledWith("DELETE /sessions");
  expect([session.status, session.me]).toEqual(["signed-out", null]);
  await waitFor(() => expect(other.status).toBe("signed-out"));
  stop();
});
