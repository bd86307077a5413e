import { render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, it, vi } from "vitest";
import { IncrementalMarkdown } from "./incremental_markdown";
import Markdown from "./Markdown.svelte";

it("keeps the element of an unchanged block while the text grows", async () => {
  const { rerender } = render(Markdown, { text: "First.\n\nSec", finished: false });
  const first = screen.getByText("First.");
  await rerender({ text: "First.\n\nSecond.\n\n```py\nx\n```" });
  expect(await screen.findByText("Second.")).toBeTruthy();
  expect(screen.getByText("First.")).toBe(first);
  expect(screen.getByText("py")).toBeTruthy();
});

it("parses the text once per frame, however often it grows", async () => {
  const read = vi.spyOn(IncrementalMarkdown.prototype, "update");
  const frames: FrameRequestCallback[] = [];
  vi.spyOn(window, "requestAnimationFrame").mockImplementation((callback) => frames.push(callback));
  vi.spyOn(window, "cancelAnimationFrame").mockImplementation((frame) => {
    frames[frame - 1] = () => undefined;
  });
  const { rerender } = render(Markdown, { text: "a", finished: false });
  read.mockClear();
  for (const text of ["ab", "abc", "abcd"]) await rerender({ text });
  for (const frame of frames) frame(0);
  expect(read).toHaveBeenCalledExactlyOnceWith("abcd", false);
});

it("skips frames between updates of a growing text, and renders a complete one at once", async () => {
  const read = vi.spyOn(IncrementalMarkdown.prototype, "update");
  let frame: FrameRequestCallback = () => undefined;
  vi.spyOn(window, "requestAnimationFrame").mockImplementation((callback) => {
    frame = callback;
    return 1;
  });
  const { rerender } = render(Markdown, { text: "a", finished: false });
  const drawnAt = async (time: number): Promise<unknown> => {
    read.mockClear();
    frame(time);
    await tick();
    return read.mock.lastCall?.[0];
  };
  await rerender({ text: "ab" });
  expect(await drawnAt(0)).toBe("ab");
  await rerender({ text: "abc" });
  expect(await drawnAt(17)).toBeUndefined();
  expect(await drawnAt(33)).toBe("abc");
  await rerender({ text: "abcd", finished: true });
  expect(await drawnAt(50)).toBe("abcd");
});

it("renders a long complete text over several frames", async () => {
  const long = `${Array.from({ length: 40 }, () => "word ".repeat(100)).join("\n\n")}\n\nEnd.`;
  const { container } = render(Markdown, { text: long, finished: true });
  expect(container.textContent).not.toContain("End.");
  await vi.waitFor(() => expect(container.textContent).toContain("End."), { timeout: 20_000 });
}, 30_000);

it("renders a formula as MathML without its source, once the worker is loaded", async () => {
  const { container } = render(Markdown, { text: "Here: $\\boxed{x^2}$ and\n\n$$\\frac a b$$", finished: true });
  await vi.waitFor(() => expect(container.querySelectorAll("math")).toHaveLength(2), { timeout: 20_000 });
  expect(container.querySelector("math msup")).toBeTruthy();
  expect(container.querySelector('math[display="block"] mfrac')).toBeTruthy();
  expect(container.querySelector("annotation, [style], code.math")).toBeNull();
}, 30_000);

it("does not take dollar amounts for formulas", () => {
  const { container } = render(Markdown, { text: "From $5 to $10, or $ 3 and 4$.", finished: true });
  expect(container.querySelector("code")).toBeNull();
});
