import { expect, it } from "vitest";
import { assignableRoles } from "./roles";

it("lets only owners assign the role of an owner, and members no role", () => {
  expect(assignableRoles("owner")).toContain("owner");
  expect(assignableRoles("admin")).toEqual(["admin", "member", "viewer"]);
  expect([assignableRoles("member"), assignableRoles("viewer"), assignableRoles(undefined)]).toEqual([[], [], []]);
});
