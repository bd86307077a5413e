import { beforeEach, expect, it, vi } from "vitest";
import { WebStorage } from "./web_storage";

const strings = new WebStorage(() => localStorage, "test.");

beforeEach(() => localStorage.clear());

it("stores, returns and removes strings under its prefix", () => {
  strings.set("a", "1");
  expect([strings.get("a"), localStorage.getItem("test.a"), strings.get("b")]).toEqual(["1", "1", null]);
  strings.remove("a");
  expect(strings.get("a")).toBeNull();
});

it("clears only its own prefix", () => {
  strings.set("a", "1");
  localStorage.setItem("other.a", "2");
  strings.clear();
  expect([strings.get("a"), localStorage.getItem("other.a")]).toEqual([null, "2"]);
});

it("does without storage that the browser refuses or that is full", () => {
  const refused = new WebStorage(() => {
    throw new DOMException("denied", "SecurityError");
  }, "test.");
  refused.set("a", "1");
  refused.remove("a");
  refused.clear();
  expect(refused.get("a")).toBeNull();
  vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
    throw new DOMException("full", "QuotaExceededError");
  });
  expect(() => strings.set("a", "1")).not.toThrow();
});

it("does not hide other errors", () => {
  const broken = new WebStorage(() => {
    throw new RangeError("a bug");
  }, "test.");
  expect(() => broken.get("a")).toThrow("a bug");
});
