import { render, screen } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import Markdown from "./Markdown.svelte";
import * as markdown from "./render_markdown";

it("keeps the element of a block that did not change while the text grows", async () => {
  const { rerender } = render(Markdown, { text: "First.\n\nSec" });
  const first = await screen.findByText("First.");
  await rerender({ text: "First.\n\nSecond.\n\n```py\nx\n```" });
  expect(await screen.findByText("Second.")).toBeTruthy();
  expect(screen.getByText("First.")).toBe(first);
  expect(screen.getByText("py")).toBeTruthy();
});

it("reads the text once a frame, however often it grows", async () => {
  const read = vi.spyOn(markdown, "toBlocks");
  const frames: FrameRequestCallback[] = [];
  vi.spyOn(window, "requestAnimationFrame").mockImplementation((callback) => frames.push(callback));
  vi.spyOn(window, "cancelAnimationFrame").mockImplementation((frame) => {
    frames[frame - 1] = () => undefined;
  });
  const { rerender } = render(Markdown, { text: "a" });
  for (const text of ["ab", "abc", "abcd"]) await rerender({ text });
  for (const frame of frames) frame(0);
  expect(read).toHaveBeenCalledExactlyOnceWith("abcd");
});
