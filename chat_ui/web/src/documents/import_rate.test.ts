import { expect, it } from "vitest";
import { COLLECTION } from "./collection.fixture";
import { filesPerMinute, sampleOf } from "./import_rate";

it("counts the files that were read since the first sample, also those that failed", () => {
  const first = sampleOf(COLLECTION, 100);
  expect(filesPerMinute(first, sampleOf({ ...COLLECTION, completed: 10, failed: 2 }, 130))).toBe(20);
});

it("has no pace until a file is read", () => {
  const first = sampleOf(COLLECTION, 100);
  expect(filesPerMinute(first, sampleOf(COLLECTION, 130))).toBeNull();
  expect(filesPerMinute(first, first)).toBeNull();
});
