/** Scales and paths of small charts, in the units of an SVG's view box. */

export interface Scale {
  readonly from: number;
  readonly to: number;
  /** Converts a value to a position. */
  at(value: number): number;
}

/** Returns a linear scale; a range without extent is widened, so that nothing is divided by zero. */
export function linear(values: readonly number[], start: number, end: number): Scale {
  let [from, to] = [values[0] ?? 0, values[0] ?? 0];
  for (const value of values) [from, to] = [Math.min(from, value), Math.max(to, value)];
  if (from === to) [from, to] = [from - 1, to + 1];
  return { from, to, at: (value) => start + ((value - from) / (to - from)) * (end - start) };
}

/** Returns about `most` round values within a scale. */
export function ticks({ from, to }: Scale, most = 5): number[] {
  const raw = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10) * power;
  const first = Math.ceil(from / step);
  const last = Math.floor(to / step);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_each, index) => (first + index) * step);
}

/** Returns the path of a line through points; null is a gap, and a point alone between gaps becomes a dot. */
export function linePath(x: readonly number[], y: readonly (number | null)[], across: Scale, up: Scale): string {
  let path = "";
  let open = false;
  for (const [index, value] of y.entries()) {
    if (value === null) {
      open = false;
      continue;
    }
    const point = `${round(across.at(x[index] ?? 0))} ${round(up.at(value))}`;
    const alone = !open && (y[index + 1] ?? null) === null;
    path += open ? `L${point}` : alone ? `M${point}h0` : `M${point}`;
    open = true;
  }
  return path;
}

/**
 * Returns a range of values without the few extreme ones: near a pole a function's values would flatten the rest.
 * Values outside it are clipped by the chart.
 */
export function typicalRange(values: readonly number[]): [number, number] {
  const sorted = [...values].sort((left, right) => left - right);
  const [low, high] = [quantile(sorted, 0.05), quantile(sorted, 0.95)];
  const [least, most] = [sorted[0] ?? 0, sorted.at(-1) ?? 0];
  const room = (high - low) * 1.5;
  return [Math.max(least, low - room), Math.min(most, high + room)];
}

function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.round((sorted.length - 1) * part)] ?? 0;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
