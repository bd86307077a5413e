import { expect, it } from "vitest";
import type { Role } from "../api/types";
import { assignableRoles, isBelow } from "./roles";

it("lets only owners assign the role of an owner, and members no role", () => {
  expect(assignableRoles("owner")).toContain("owner");
  expect(assignableRoles("admin")).toEqual(["admin", "member", "viewer"]);
  expect([assignableRoles("member"), assignableRoles("viewer"), assignableRoles(undefined)]).toEqual([[], [], []]);
});

it("lets administrators and owners reset only accounts below their own role", () => {
  const below = (own: Role) => (["owner", "admin", "member", "viewer"] as const).filter((role) => isBelow(role, own));
  expect(below("owner")).toEqual(["admin", "member", "viewer"]);
  expect(below("admin")).toEqual(["member", "viewer"]);
  expect([below("member"), below("viewer")]).toEqual([[], []]);
});
