import { expect, it, vi } from "vitest";
import { call } from "./call";
import * as http from "./http";

it("splits the operation's name, fills its path and passes query and body on", async () => {
  const json = vi.spyOn(http, "json").mockResolvedValue({ id: "k1" });
  const body = { overlap_seconds: 60 };
  expect(await call("POST /admin/keys/{key_id}/rotate", { path: { key_id: "a/b?c" }, body })).toEqual({ id: "k1" });
  expect(json).toHaveBeenLastCalledWith("POST", "/admin/keys/a%2Fb%3Fc/rotate", { body });
  await call("GET /usage", { query: { days: 7 } });
  expect(json).toHaveBeenLastCalledWith("GET", "/usage", { query: { days: 7 } });
  await call("GET /people");
  expect(json).toHaveBeenLastCalledWith("GET", "/people", {});
});
