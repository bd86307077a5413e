/** The display name of a budget. */
import type { BudgetRow } from "../api/types";
import { texts } from "../ui/messages";

export function budgetName(row: BudgetRow): string {
  if (row.name === "organisation") return texts.theOrganisation;
  return row.name.startsWith("key:") ? texts.keyNamed(row.label) : texts.projectNamed(row.label);
}
