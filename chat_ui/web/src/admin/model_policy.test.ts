import { expect, it } from "vitest";
import { describePolicy, isUnrestricted, restrictableRoles, UNRESTRICTED } from "./model_policy";

it("describes policies", () => {
  expect(describePolicy(UNRESTRICTED)).toBe("Every model");
  expect(describePolicy({ mode: "allow_list", model_ids: [] })).toBe("No model");
  expect(describePolicy({ mode: "allow_list", model_ids: ["a", "b"] })).toBe("Only a, b");
  expect(describePolicy({ mode: "deny_list", model_ids: ["a"] })).toBe("All but a");
});

it("distinguishes an empty list of permitted models from no restriction", () => {
  expect(isUnrestricted(UNRESTRICTED)).toBe(true);
  expect(isUnrestricted({ mode: "allow_list", model_ids: [] })).toBe(false);
});

it("lets no one restrict owners, or their own role", () => {
  expect(restrictableRoles("owner")).toEqual(["admin", "member", "viewer"]);
  expect(restrictableRoles("admin")).toEqual(["member", "viewer"]);
  expect(restrictableRoles("member")).toEqual([]);
  expect(restrictableRoles(undefined)).toEqual([]);
});
