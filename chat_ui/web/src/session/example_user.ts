/** A signed-in owner of an organisation, for tests. */
import type { Me } from "../api/types";

export const ADA: Me = {
  user: { id: "user-1", email: "ada@example.org", name: "Ada" },
  organisation: { id: "org-1", name: "Engines" },
  role: "owner",
  project: "proj-1",
  projects: [],
  operator: true,
  by_provider: false,
};
