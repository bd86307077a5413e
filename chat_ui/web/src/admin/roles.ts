/** Which roles a member may assign: none above their own, so only owners make owners. */
import type { Role } from "../api/types";

const BELOW: Readonly<Record<Role, readonly Role[]>> = {
  owner: ["owner", "admin", "member", "viewer"],
  admin: ["admin", "member", "viewer"],
  member: [],
  viewer: [],
};

export function assignableRoles(own: Role | undefined): readonly Role[] {
  return own === undefined ? [] : BELOW[own];
}

/** Whether `own` may act on the account of a member with this role: only on accounts below. */
export function isBelow(role: Role, own: Role | undefined): boolean {
  return role !== own && assignableRoles(own).includes(role);
}
