/** Model policies: how one is described, and which roles a member may restrict. */
import type { ModelPolicy, Role } from "../api/types";
import { texts } from "../ui/messages";
import { assignableRoles } from "./roles";

/** A policy that permits every model. */
export const UNRESTRICTED = { mode: "deny_list", model_ids: [] } satisfies Pick<ModelPolicy, "mode" | "model_ids">;

type List = Pick<ModelPolicy, "mode" | "model_ids">;

export function isUnrestricted({ mode, model_ids }: List): boolean {
  return mode === "deny_list" && model_ids.length === 0;
}

export function describePolicy(policy: List): string {
  if (isUnrestricted(policy)) return texts.mayUseAll;
  if (policy.model_ids.length === 0) return texts.mayUseNone;
  const models = policy.model_ids.join(", ");
  return policy.mode === "allow_list" ? texts.mayUseOnly(models) : texts.mayUseAllBut(models);
}

/** The roles below a member's own, so that no one changes their own access; owners are never restricted. */
export function restrictableRoles(own: Role | undefined): readonly Role[] {
  return assignableRoles(own).filter((role) => role !== own);
}
