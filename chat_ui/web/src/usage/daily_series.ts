/** Converts usage rows to chart series: one value per day for each model. */
import type { DayUsage } from "../api/types";

export const MEASURES = ["cost", "tokens", "requests"] as const;
export type Measure = (typeof MEASURES)[number];

export interface Series {
  readonly name: string;
  /** One value per day; costs in nano-USD. */
  readonly values: readonly number[];
}

const DAY_MS = 86_400_000;
/** Largest number of series that colours can distinguish; the smallest ones are combined. */
export const MAX_SERIES = 6;

/** Returns the last `count` days (UTC) up to `now` (milliseconds), oldest first, as `2026-11-21`. */
export function lastDays(count: number, now: number): string[] {
  return Array.from({ length: count }, (_none, index) => new Date(now - (count - 1 - index) * DAY_MS).toISOString().slice(0, 10));
}

export function valueOf(row: DayUsage, measure: Measure): number {
  if (measure === "cost") return row.cost_nano;
  return measure === "requests" ? row.requests : row.input_tokens + row.output_tokens;
}

/** Returns a series for each model, largest first; the smallest are combined under the name `others`. */
export function seriesOf(rows: readonly DayUsage[], days: readonly string[], measure: Measure, others: string): Series[] {
  const models = [...new Set(rows.map((row) => row.model))];
  const all = models.map((name) => {
    const own = rows.filter((row) => row.model === name);
    return { name, values: days.map((day) => sum(own, day, measure)) };
  });
  all.sort((one, other) => total(other) - total(one));
  if (all.length <= MAX_SERIES) return all;
  const rest = all.slice(MAX_SERIES - 1);
  const together = days.map((_day, index) => rest.reduce((value, each) => value + (each.values[index] ?? 0), 0));
  return [...all.slice(0, MAX_SERIES - 1), { name: others, values: together }];
}

export function total(series: Series): number {
  return series.values.reduce((one, other) => one + other, 0);
}

function sum(rows: readonly DayUsage[], day: string, measure: Measure): number {
  return rows.filter((row) => row.day === day).reduce((value, row) => value + valueOf(row, measure), 0);
}
