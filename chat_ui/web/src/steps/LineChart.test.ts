import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import LineChart from "./LineChart.svelte";

const props = {
  label: "Values from 0 to 4",
  x: [0, 1, 2, 3, 4],
  y: [5, null, 7, 8, 9],
  bars: [0, 1, 2, 0, 0],
  xName: "x",
  yName: "y",
  barName: "rain",
  xFormat: (value: number) => `x ${value}`,
  yFormat: (value: number) => `y ${value}`,
  barFormat: (value: number) => `${value} mm`,
};

it("reads out points by keyboard, gaps included", async () => {
  const user = userEvent.setup();
  render(LineChart, props);
  const chart = screen.getByRole("slider", { name: "Values from 0 to 4" });
  await user.tab();
  expect(document.activeElement).toBe(chart);
  const said = [];
  for (const key of ["{ArrowRight}", "{ArrowRight}", "{End}", "{ArrowRight}", "{ArrowLeft}", "{Home}", "{ArrowLeft}"]) {
    await user.keyboard(key);
    said.push(chart.getAttribute("aria-valuetext"));
  }
  const [first, gap, last, before] = ["x 0 · y 5 · 0 mm", "x 1 · no value · 1 mm", "x 4 · y 9 · 0 mm", "x 3 · y 8 · 0 mm"];
  expect(said).toEqual([first, gap, last, last, before, first, first]);
});

it("has all values in a table, and a line with a gap", () => {
  const { container } = render(LineChart, props);
  expect(screen.getAllByRole("row", { hidden: true })).toHaveLength(6);
  expect(container.querySelector("path[clip-path]")?.getAttribute("d")?.match(/M/g)).toHaveLength(2);
  expect(container.querySelectorAll(".bar")).toHaveLength(2);
  expect(container.querySelector("[style]")).toBeNull();
});
