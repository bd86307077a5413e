import { expect, it } from "vitest";
import { budgetName } from "./budget_name";

const row = (name: string, label: string) => ({ name, label, limit_nano: null, spent_nano: 0, held_nano: 0 });

it("names budgets of the organisation, a project and a key", () => {
  const rows = [row("organisation", ""), row("project:p1", "Website"), row("key:k1", "ci")];
  expect(rows.map(budgetName)).toEqual(["The organisation", "Project Website", "Key ci"]);
});
