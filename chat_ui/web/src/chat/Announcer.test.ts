import { render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, it } from "vitest";
import { conversationOf, turnOf } from "./answer_parts.fixture";
import Announcer from "./Announcer.svelte";

it("speaks twice for one answer, however many tokens it has", async () => {
  const turn = turnOf("q");
  render(Announcer, { conversation: conversationOf(turn) });
  const region = screen.getByRole("status");
  const said = new Set<string>([region.textContent ?? ""]);
  for (let token = 0; token < 20; token++) {
    turn.answer.apply({ type: "text", text: "**so** " });
    await tick();
    said.add(region.textContent ?? "");
  }
  turn.answer.apply({ type: "done" });
  await tick();
  said.add(region.textContent ?? "");
  expect([...said]).toEqual(["The model is answering.", `Answer: ${"so ".repeat(20).trim()}`]);
});
