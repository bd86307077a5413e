/** Formats the details of an audit log entry in the person's language. */
import type { AuditRow } from "../api/types";
import { count, money } from "../ui/format";
import { texts } from "../ui/messages";

type Detail = AuditRow["details"][string];

/** Returns the details such as `role: Member, address: ada@example.org`; empty values are left out. */
export function detailsText(details: AuditRow["details"]): string {
  const given = Object.entries(details).filter(([, value]) => value !== null && value !== "");
  return given.map(([name, value]) => `${texts.detailNames[name] ?? name}: ${valueOf(name, value)}`).join(", ");
}

function valueOf(name: string, value: Detail): string {
  if (typeof value === "boolean") return value ? texts.yes : texts.no;
  if (typeof value === "number") return name.includes("_nano") ? money(value) : count(value);
  if (typeof value !== "string") return (value ?? []).join(", ");
  const names: Readonly<Record<string, string>> = name === "role" ? texts.roles : name === "kind" ? texts.creditKinds : {};
  return names[value] ?? value;
}
