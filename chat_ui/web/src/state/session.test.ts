import { expect, it, vi } from "vitest";
import * as client from "../api/client";
import { ApiError, failureOf } from "../api/failure";
import { Session } from "./session.svelte";

it("connects, and keeps the choice of model over a refresh", async () => {
  const list = vi.spyOn(client, "listModels").mockResolvedValue(["a", "b"]);
  const session = new Session();
  await session.connect("k");
  expect(session).toMatchObject({ status: "ready", model: "a", key: "k" });
  session.model = "b";
  await session.refresh();
  expect(session.model).toBe("b");
  list.mockResolvedValue([]);
  await session.refresh();
  expect(session.model).toBe("");
});

it("forgets a key that does not work and says why", async () => {
  vi.spyOn(client, "listModels").mockRejectedValue(new ApiError(failureOf("unauthorized")));
  const session = new Session();
  await session.connect("bad");
  expect(session).toMatchObject({ status: "signed-out", key: "", failure: { kind: "unauthorized" } });
});

it("keeps a key while the server cannot be asked", async () => {
  const list = vi.spyOn(client, "listModels").mockRejectedValue(new ApiError(failureOf("network")));
  const session = new Session();
  await session.connect("k");
  expect(session).toMatchObject({ status: "signed-out", key: "k", failure: { kind: "network" } });
  list.mockResolvedValue(["a"]);
  await session.refresh();
  expect(session).toMatchObject({ status: "ready", failure: null });
  session.signOut();
  expect(session.key).toBe("");
});
