import { render, screen } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { failureOf } from "../api/failure";
import { turnOf } from "./answer_parts.fixture";
import TurnView from "./TurnView.svelte";

it("shows question and answer, the answer busy while it runs", () => {
  render(TurnView, { turn: turnOf("<b>why</b>", { type: "text", text: "**so**" }) });
  expect(screen.getByRole("article", { name: "You" }).textContent).toBe("<b>why</b>");
  const answer = screen.getByRole("article", { name: "tiny" });
  expect(answer.getAttribute("aria-busy")).toBe("true");
  expect(answer.querySelector("strong")?.textContent).toBe("so");
});

it("says that it waits, and that an answer is empty", async () => {
  const { rerender } = render(TurnView, { turn: turnOf("q") });
  expect(screen.getByText("Waiting for the model…")).toBeTruthy();
  await rerender({ turn: turnOf("q", { type: "done" }) });
  expect(screen.getByText(/without writing anything/)).toBeTruthy();
});

it("keeps half an answer beside the failure", () => {
  render(TurnView, { turn: turnOf("q", { type: "text", text: "half" }, { type: "failed", failure: failureOf("cut") }) });
  expect(screen.getByText("half")).toBeTruthy();
  expect(screen.getByRole("alert").textContent).toContain("ended before the answer did");
});
