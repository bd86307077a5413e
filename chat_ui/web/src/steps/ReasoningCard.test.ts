import { render, screen } from "@testing-library/svelte";
import { expect, it } from "vitest";
import ReasoningCard from "./ReasoningCard.svelte";
import { reasoningOf } from "./reasoning_data";
import { announcementOf } from "./step_line";
import { step } from "./steps.fixture";

const thought = (state: "running" | "done" | "failed", data: Record<string, unknown>): ReturnType<typeof step> =>
  step({ kind: "reasoning", name: "", state, data: data as never });

it("folds the reasoning under the time that it took", () => {
  const { container } = render(ReasoningCard, { step: thought("done", { text: "First,\n<b>add</b>.", seconds: 12.4 }) });
  expect(container.querySelector("details")?.open).toBe(false);
  expect(screen.getByText("Thought for 12 s").tagName).toBe("SUMMARY");
  expect(container.querySelector(".text")?.textContent).toBe("First,\n<b>add</b>.");
});

it("stays unfolded while the text grows", async () => {
  const { container, rerender } = render(ReasoningCard, { step: thought("running", { text: "First", seconds: 1 }) });
  const details = container.querySelector("details");
  if (details) details.open = true;
  expect(screen.getByText("Thinking… 1 s")).toBeTruthy();
  await rerender({ step: thought("done", { text: "First, add.", seconds: 65 }) });
  expect(container.querySelector("details")?.open).toBe(true);
  expect(screen.getByText("Thought for 1 min 5 s")).toBeTruthy();
  expect(screen.getByText("First, add.")).toBeTruthy();
});

it("says what is not kept", () => {
  render(ReasoningCard, { step: thought("failed", {}) });
  expect(screen.getByText("Thoughts")).toBeTruthy();
  expect(screen.getByText("The text is not kept.")).toBeTruthy();
  expect(reasoningOf(thought("done", { text: "a", cut: true })).cut).toBe(true);
});

it("is announced while it runs, and not afterwards", () => {
  expect(announcementOf([thought("running", { text: "a" })])).toBe("The model is thinking.");
  expect(announcementOf([thought("done", { text: "a" })])).toBe("");
});
