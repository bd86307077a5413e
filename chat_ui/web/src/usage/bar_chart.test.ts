import { beforeEach, expect, it, vi } from "vitest";

const destroy = vi.fn();
const Chart = Object.assign(vi.fn(() => ({ destroy })), { register: vi.fn() });
vi.mock("chart.js", () => ({ BarController: 1, BarElement: 2, CategoryScale: 3, LinearScale: 4, Tooltip: 5, Chart }));

beforeEach(() => void Chart.mockClear());

it("stacks a dataset for each series, formats values, and removes the chart", async () => {
  const { drawBarChart } = await import("./bar_chart");
  const canvas = document.createElement("canvas");
  const series = [
    { name: "a", values: [1, 2], colour: "red" },
    { name: "b", values: [0, 3], colour: "blue" },
  ];
  const remove = drawBarChart(canvas, { labels: ["Mon", "Tue"], series, text: "black", line: "grey", format: (value) => `${value} t` });
  const [target, config] = Chart.mock.calls[0] as unknown as [HTMLCanvasElement, ChartConfig];
  expect(target).toBe(canvas);
  expect(config.data.labels).toEqual(["Mon", "Tue"]);
  expect(config.data.datasets).toMatchObject([
    { label: "a", data: [1, 2], backgroundColor: "red" },
    { label: "b", data: [0, 3], backgroundColor: "blue" },
  ]);
  const { scales, plugins, animation } = config.options;
  expect([scales.x.stacked, scales.y.stacked, animation]).toEqual([true, true, false]);
  expect(scales.y.ticks.callback(3)).toBe("3 t");
  expect(plugins.tooltip.callbacks.label({ dataset: { label: "b" }, raw: 3 })).toBe(" b: 3 t");
  remove();
  expect(destroy).toHaveBeenCalledOnce();
});

interface ChartConfig {
  readonly data: { readonly labels: unknown; readonly datasets: unknown };
  readonly options: {
    readonly animation: boolean;
    readonly scales: { readonly x: { stacked: boolean }; readonly y: { stacked: boolean; ticks: { callback: (value: number) => string } } };
    readonly plugins: { readonly tooltip: { callbacks: { label: (item: unknown) => string } } };
  };
}
