import { render, screen } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { step } from "../steps/steps.fixture";
import { texts } from "../ui/messages";
import AnswerView from "./AnswerView.svelte";
import { chatMessage } from "./messages.fixture";

const message = "There is no place called Xyz.";
const failed = step({ state: "failed", data: { error: { code: "not_found", message } } });

it("shows once why a tool failed, in its card", () => {
  render(AnswerView, { answer: chatMessage({ text: message, steps: [failed] }) });
  expect(screen.getAllByText(message)).toHaveLength(1);
  expect(screen.getByRole("region", { name: "Weather" }).textContent).toContain(message);
  expect(screen.queryByText(texts.emptyAnswer)).toBeNull();
});

it.each(["", "The first words"])("says that a filter ended the answer %j", async (text) => {
  render(AnswerView, { answer: chatMessage({ text, finish_reason: "content_filter" }) });
  expect(await screen.findByText(texts.filteredHint)).toBeTruthy();
  expect(screen.queryByText(texts.emptyAnswer)).toBeNull();
});

it("shows a model's answer after a tool that failed", async () => {
  render(AnswerView, { answer: chatMessage({ text: "Try another place.", steps: [failed] }) });
  expect(await screen.findByText("Try another place.")).toBeTruthy();
  expect(screen.getByText(message)).toBeTruthy();
});
