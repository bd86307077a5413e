import { expect, it } from "vitest";
import { detailsText } from "./audit_details";

it("names details and formats them by their type", () => {
  const details = { role: "admin", email: "ada@example.org", everywhere: true, limit_nano: 1_500_000_000, models: ["a", "b"] };
  expect(detailsText(details)).toBe("role: Administrator, address: ada@example.org, everywhere: yes, limit: $1.50, models: a, b");
});

it("leaves empty details out and shows unknown names and values unchanged", () => {
  expect(detailsText({ email: "", successor: null, overlap: 3600, kind: "topup", role: "guest" })).toBe(
    "overlap: 3,600, kind: Paid in, role: guest",
  );
  expect(detailsText({})).toBe("");
});
