import { expect, it } from "vitest";
import type { DayUsage } from "../api/types";
import { lastDays, MAX_SERIES, seriesOf } from "./daily_series";

const NOW = Date.parse("2026-03-01T12:00:00Z");

function row(day: string, model: string, cost_nano: number): DayUsage {
  return { day, model, cost_nano, requests: 1, input_tokens: 10, cached_tokens: 4, output_tokens: 5 };
}

it("lists the last days, today included", () => {
  expect(lastDays(3, NOW)).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
});

it("has a value for each day and model, the largest model first", () => {
  const rows = [row("2026-02-28", "small", 3), row("2026-03-01", "large", 9), row("2026-03-01", "small", 4)];
  const days = lastDays(2, NOW);
  expect(seriesOf(rows, days, "cost", "others")).toEqual([
    { name: "large", values: [0, 9] },
    { name: "small", values: [3, 4] },
  ]);
  expect(seriesOf(rows, days, "tokens", "others")[0]).toEqual({ name: "small", values: [15, 15] });
  expect(seriesOf(rows, days, "requests", "others")[1]).toEqual({ name: "large", values: [0, 1] });
});

it("combines the smallest models when there are more than colours", () => {
  const rows = Array.from({ length: 9 }, (_none, index) => row("2026-03-01", `m${index}`, index + 1));
  const series = seriesOf(rows, lastDays(1, NOW), "cost", "others");
  expect(series).toHaveLength(MAX_SERIES);
  expect(series.at(-1)).toEqual({ name: "others", values: [1 + 2 + 3 + 4] });
});
