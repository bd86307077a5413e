import { fireEvent, render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import Slider from "./Slider.svelte";

it("shows the default until it is moved, and can be reset", async () => {
  render(Slider, { label: "Heat", hint: "h", min: 0, max: 2, resting: 1, value: null });
  const slider = screen.getByLabelText<HTMLInputElement>("Heat");
  expect(slider.getAttribute("aria-valuetext")).toBe("1 (default)");
  await fireEvent.input(slider, { target: { value: "0.5" } });
  expect(slider.getAttribute("aria-valuetext")).toBe("0.5");
  await userEvent.click(screen.getByRole("button", { name: "Use default: Heat" }));
  expect(slider.getAttribute("aria-valuetext")).toBe("1 (default)");
});
