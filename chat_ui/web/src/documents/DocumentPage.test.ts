import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/call";
import type { DocumentPassage } from "../api/types";
import DocumentPage from "./DocumentPage.svelte";

Element.prototype.scrollIntoView = () => undefined;

const passage = (number: number): DocumentPassage => {
  const text = `Sentence ${number}.`;
  return { number, text, start: number * 100, end: number * 100 + text.length, page: 1 + Math.floor(number / 2), heading_path: ["Lease"] };
};

function answer(first: number, limit: number): object {
  const numbers = Array.from({ length: Math.min(limit, 20 - first) }, (_, index) => first + index);
  return { collection: "Leases", name: "lease.pdf", passages: numbers.map(passage), has_more: first + limit < 20 };
}

it("opens a document at the cited passage, and reads before and after it", async () => {
  const call = vi.spyOn(api, "call").mockImplementation((_name, given) => {
    const { first = 0, limit = 0 } = (given as { query: { first?: number; limit?: number } }).query;
    return Promise.resolve(answer(first, limit)) as never;
  });
  render(DocumentPage, { collection: "vs_1", file: "file-1", cited: 7 });
  const marked = await screen.findByText("Sentence 7.");
  expect(marked.tagName).toBe("MARK");
  expect(document.querySelectorAll("mark")).toHaveLength(1);
  expect(screen.getByRole("heading", { name: "lease.pdf" })).toBeTruthy();
  expect(screen.getByText("page 4")).toBeTruthy();
  expect(screen.queryByText("Sentence 3.")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show what comes before" }));
  expect(await screen.findByText("Sentence 0.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Show what comes before" })).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show more" }));
  expect(await screen.findByText("Sentence 19.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
  expect(call.mock.calls.map(([, given]) => (given as { query: object }).query)).toEqual([
    { first: 4, limit: 10 },
    { first: 0, limit: 4 },
    { first: 14, limit: 10 },
  ]);
});
