import { render, screen } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import { failureOf } from "../api/failure";
import { Turn } from "../state/conversation.svelte";
import { answerOf, conversationOf, turnOf } from "./answer_parts.fixture";
import Transcript from "./Transcript.svelte";

it("invites when it is empty", () => {
  render(Transcript, { conversation: conversationOf(), onOtherKey: vi.fn() });
  expect(screen.getByRole("heading").textContent).toBe("What would you like to know?");
});

it("offers to try again for the last turn only", () => {
  const failed = { type: "failed", failure: failureOf("server") } as const;
  const turns = [turnOf("one", failed), new Turn(1, "two", answerOf(failed))];
  render(Transcript, { conversation: conversationOf(...turns), onOtherKey: vi.fn() });
  expect(screen.getAllByRole("alert")).toHaveLength(2);
  expect(screen.getAllByRole("button", { name: "Try again" })).toHaveLength(1);
});
