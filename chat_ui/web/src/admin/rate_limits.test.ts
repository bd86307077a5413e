import { expect, it } from "vitest";
import type { LimitRow } from "../api/types";
import { inForce, parseLimit, subjectName } from "./rate_limits";

it.each([
  ["", null],
  [" ", null],
  ["60", 60],
  ["90 000", 90_000],
  ["999999999", 999_999_999],
  ["0", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["1e3", undefined],
  ["1000000000", undefined],
  ["many", undefined],
])("reads %j as %s", (typed, limit) => {
  expect(parseLimit(typed)).toBe(limit);
});

const NONE = { requests_per_minute: null, tokens_per_minute: null, requests_per_day: null, concurrent_requests: null };

it("applies the lower limit of the organisation's and the operator's", () => {
  const row: LimitRow = {
    subject: "person:1",
    label: "Ada",
    own: { ...NONE, requests_per_minute: 70, tokens_per_minute: 5 },
    ceiling: { ...NONE, requests_per_minute: 50, requests_per_day: 9 },
  };
  expect([inForce(row, "requests_per_minute"), inForce(row, "tokens_per_minute")]).toEqual([50, 5]);
  expect([inForce(row, "requests_per_day"), inForce(row, "concurrent_requests")]).toEqual([9, null]);
});

it.each([
  ["organisation", "", "The whole organisation"],
  ["model:m", "m", "Model m, in all projects"],
  ["project:p", "Web", "Project Web"],
  ["key:k", "ci", "ci"],
])("names %s", (subject, label, name) => {
  expect(subjectName({ subject, label, own: NONE, ceiling: NONE })).toBe(name);
});
