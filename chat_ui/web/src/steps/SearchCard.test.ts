import { render, screen, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import SearchCard from "./SearchCard.svelte";
import { SEARCH, step } from "./steps.fixture";

const search = (changes: Parameters<typeof step>[0]) => step({ kind: "search", name: "weighted_best_of_n", ...changes });

it("shows how far a search is, which can be stopped", async () => {
  const onStop = vi.fn();
  render(SearchCard, { step: search({ state: "running", data: { step: 2, paths: 4, generated: 1200 } }), onStop });
  const card = screen.getByRole("region", { name: "Thinking longer · Weighted vote" });
  expect(card.getAttribute("aria-busy")).toBe("true");
  expect(within(card).getByText(/step 2 · 4 answers · 1,200 tokens written/)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Stop" }));
  expect(onStop).toHaveBeenCalledOnce();
});

it("shows candidates with score and result, the chosen one marked, and votes", async () => {
  const { container } = render(SearchCard, { step: search({ data: SEARCH }) });
  expect(screen.getByText("step 2 · 4 answers · 1,132 tokens written · 2,000 read by the verifier")).toBeTruthy();
  const votes = screen.getByRole("list", { name: "Votes" });
  expect(within(votes).getAllByRole("listitem").map((each) => each.textContent.trim())).toEqual(["42: 0.875", "41: 0.25", "no result: 0"]);
  expect([...votes.querySelectorAll("rect:not(.track)")].map((each) => each.getAttribute("width"))).toEqual(["100", expect.stringMatching(/^28\.5/), "0"]);
  await userEvent.click(screen.getByText("Show the 4 answers"));
  const heads = [...container.querySelectorAll("li summary")].map((each) => each.textContent.replace(/\s+/g, " ").trim());
  expect(heads).toEqual(["Answer 1 chosen result 42 · score 0.875", "Answer 2 result 41 · score 0.25", "Answer 3 score 0.1 · dropped", "Answer 4 cut off"]);
  expect(container.querySelector("li.chosen .text")?.textContent).toBe("<b>It</b> is **42**.");
  expect(screen.getAllByText("The text is not kept.")).toHaveLength(2);
});

it("says in words that no result has a majority", async () => {
  const { rerender } = render(SearchCard, { step: search({ data: SEARCH }) });
  expect(screen.queryByText(/No majority/)).toBeNull();
  await rerender({ step: search({ data: { ...SEARCH, votes: [["41", 1], ["42", 1]] } }) });
  expect(screen.getByText("No majority: no result has more than half of the votes.")).toBeTruthy();
});

it("shows a failed search, which is tried again", async () => {
  const onRetry = vi.fn();
  render(SearchCard, { step: search({ state: "failed", data: { error: { message: "No verifier." } } }), onRetry });
  expect(screen.getByText("No verifier.")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(onRetry).toHaveBeenCalledOnce();
});
