/** Which roles somebody may give and take away: nobody one above his own, and only owners make owners. */
import type { Role } from "../api/shapes";

const BELOW: Readonly<Record<Role, readonly Role[]>> = {
  owner: ["owner", "admin", "member", "viewer"],
  admin: ["admin", "member", "viewer"],
  member: [],
  viewer: [],
};

export function rolesToGive(own: Role | undefined): readonly Role[] {
  return own === undefined ? [] : BELOW[own];
}
