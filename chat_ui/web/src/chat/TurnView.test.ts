import { render, screen } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import { failureOf } from "../api/failure";
import { turnOf } from "./answer_parts.fixture";
import TurnView from "./TurnView.svelte";

it("shows question and answer, the answer busy while it runs", async () => {
  render(TurnView, { turn: turnOf("<b>why</b>", { type: "text", text: "**so**" }) });
  expect(screen.getByRole("article", { name: "You" }).textContent).toBe("<b>why</b>");
  const answer = screen.getByRole("article", { name: "tiny" });
  expect(answer.getAttribute("aria-busy")).toBe("true");
  await vi.waitFor(() => expect(answer.querySelector("strong")?.textContent).toBe("so"));
});

it("says that it waits, and that an answer is empty", async () => {
  const { rerender } = render(TurnView, { turn: turnOf("q") });
  expect(screen.getByText("Waiting for the model…")).toBeTruthy();
  await rerender({ turn: turnOf("q", { type: "done" }) });
  expect(screen.getByText(/without writing anything/)).toBeTruthy();
});

it("keeps half an answer beside the failure", async () => {
  render(TurnView, { turn: turnOf("q", { type: "text", text: "half" }, { type: "failed", failure: failureOf("cut") }) });
  expect(await screen.findByText("half")).toBeTruthy();
  expect(screen.getByRole("alert").textContent).toContain("ended before the answer did");
});
