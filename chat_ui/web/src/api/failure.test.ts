import { describe, expect, it } from "vitest";
import { kindOf, retryAfterSeconds } from "./failure";

describe("kindOf", () => {
  it.each([
    [401, null, "unauthorized"],
    [404, "model_not_found", "model-not-found"],
    [429, "rate_limit_exceeded", "limit"],
    [500, "shared_rate_limit", "shared-limit"],
    [500, "model_rate_limit", "model-limit"],
    [500, "larger_than_limit", "over-limit"],
    [429, "insufficient_quota", "quota"],
    [500, "budget_exhausted", "quota"],
    [500, "insufficient_credit", "credit"],
    [500, "unavailable", "busy"],
    [503, null, "busy"],
    [400, "context_length_exceeded", "too-long"],
    [400, "content_policy_violation", "blocked"],
    [400, "invalid_value", "refused"],
    [500, null, "server"],
    [502, "toString", "server"],
  ] as const)("%s %s is %s", (status, code, kind) => {
    expect(kindOf(status, code)).toBe(kind);
  });
});

describe("retryAfterSeconds", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  it.each([
    ["7", 7],
    ["0.2", 1],
    ["-3", 0],
    ["Thu, 01 Jan 2026 00:00:09 GMT", 9],
    ["Thu, 01 Jan 2025 00:00:00 GMT", 0],
    ["soon", null],
    ["", null],
    [null, null],
  ])("reads %j as %s", (header, seconds) => {
    expect(retryAfterSeconds(header, now)).toBe(seconds);
  });
});
