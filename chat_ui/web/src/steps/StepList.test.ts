import { render, screen } from "@testing-library/svelte";
import { expect, it } from "vitest";
import StepList from "./StepList.svelte";
import { resulting, step, WEATHER } from "./steps.fixture";

it("shows quiet lines, a summary to open, and cards in order", () => {
  const steps = [
    step({ kind: "summary", data: { dropped: 2, kept: 3, text: "They spoke of mills." } }),
    step({ number: 1, kind: "rewrite", data: { from: "And there?", to: "Weather in Gdańsk?" } }),
    step({ number: 2, kind: "route", data: { choice: "none" } }),
    { ...resulting("weather", WEATHER), number: 3 },
  ];
  const { container } = render(StepList, { steps });
  expect(screen.getByText("Understood as: Weather in Gdańsk?")).toBeTruthy();
  expect(screen.getByText("They spoke of mills.", { exact: false })).toBeTruthy();
  expect([...container.children].map((each) => each.tagName)).toEqual(["P", "DETAILS", "P", "SECTION"]);
  expect(screen.queryByRole("button", { name: /Stop|Try again/ })).toBeNull();
});
