import { expect, it } from "vitest";
import { BATCH } from "./batch.fixture";
import { secondsLeft } from "./time_left";

it("is the rest of the lines at the pace so far", () => {
  expect(secondsLeft({ ...BATCH, total: 100, completed: 20, failed: 5, began: 1000 }, 1050)).toBe(150);
});

it.each([{ state: "completed" }, { began: null }, { completed: 0, failed: 0 }] as const)("is not known with %j", (changes) => {
  expect(secondsLeft({ ...BATCH, ...changes }, 2000)).toBe(null);
});
