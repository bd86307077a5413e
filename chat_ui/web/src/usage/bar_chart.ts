/**
 * Draws stacked bars on a canvas by Chart.js, of which only the parts for bars are loaded. No styles are added to the
 * page, so its security policy needs no exception.
 */
import { BarController, BarElement, CategoryScale, Chart, LinearScale, Tooltip } from "chart.js";

Chart.register(BarController, BarElement, CategoryScale, LinearScale, Tooltip);

export interface Bars {
  readonly labels: readonly string[];
  readonly series: readonly { readonly name: string; readonly values: readonly number[]; readonly colour: string }[];
  readonly text: string;
  readonly line: string;
  readonly format: (value: number) => string;
}

/** Draws the chart; returns a function that removes it. */
export function drawBarChart(canvas: HTMLCanvasElement, bars: Bars): () => void {
  const chart = new Chart(canvas, {
    type: "bar",
    data: {
      labels: [...bars.labels],
      datasets: bars.series.map(({ name, values, colour }) => ({
        label: name,
        data: [...values],
        backgroundColor: colour,
        borderRadius: 3,
        maxBarThickness: 42,
      })),
    },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      scales: {
        x: { stacked: true, grid: { display: false }, border: { color: bars.line }, ticks: { color: bars.text, maxRotation: 0 } },
        y: {
          stacked: true,
          beginAtZero: true,
          grid: { color: bars.line },
          border: { display: false },
          ticks: { color: bars.text, maxTicksLimit: 6, callback: (value) => bars.format(Number(value)) },
        },
      },
      plugins: {
        tooltip: { callbacks: { label: (item) => ` ${item.dataset.label ?? ""}: ${bars.format(Number(item.raw))}` } },
      },
    },
  });
  return () => chart.destroy();
}
