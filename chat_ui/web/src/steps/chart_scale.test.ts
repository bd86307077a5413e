import { expect, it } from "vitest";
import { linear, linePath, ticks, typicalRange } from "./chart_scale";

it("scales linearly, also values without extent", () => {
  const scale = linear([2, 4, 3], 0, 100);
  expect([2, 3, 4].map((value) => scale.at(value))).toEqual([0, 50, 100]);
  expect(linear([5, 5], 0, 10).at(5)).toBe(5);
  expect(linear([], 0, 10).at(0)).toBe(5);
});

it("marks round values", () => {
  expect(ticks(linear([-10, 10], 0, 1), 4)).toEqual([-10, -5, 0, 5, 10]);
  expect(ticks(linear([0.1, 0.9], 0, 1)).map((each) => each.toFixed(1))).toEqual(["0.2", "0.4", "0.6", "0.8"]);
});

it("interrupts a line at gaps, and draws a lone point as a dot", () => {
  const same = { from: 0, to: 9, at: (value: number) => value };
  expect(linePath([0, 1, 2, 3, 4, 5], [1, 2, null, 3, null, 4], same, same)).toBe("M0 1L1 2M3 3h0M5 4h0");
});

it("leaves out the extreme values at a pole", () => {
  const x = Array.from({ length: 201 }, (_each, index) => (index - 100) / 10);
  const [low, high] = typicalRange(x.filter((each) => each !== 0).map((each) => 1 / each));
  expect(low).toBeGreaterThan(-10);
  expect(high).toBeLessThan(10);
  expect(typicalRange([0, 1, 2, 3])).toEqual([0, 3]);
});
