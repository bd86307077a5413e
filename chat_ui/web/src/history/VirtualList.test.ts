import { fireEvent, render, screen } from "@testing-library/svelte";
import { createRawSnippet } from "svelte";
import { expect, it, vi } from "vitest";
import VirtualList from "./VirtualList.svelte";

const LINE = 44;
const line = createRawSnippet<[number]>((item) => ({ render: () => `<a href="/c/${item()}">Line ${item()}</a>` }));
const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);

function drawn(count: number, onNearEnd = vi.fn()) {
  const props = { label: "Lines", items: numbers(count), keyOf: String, lineHeight: LINE, line, hasLink: () => true, onNearEnd };
  const { container, rerender } = render(VirtualList<number>, props);
  const box = container.querySelector<HTMLElement>(".box") ?? container;
  const scrollTo = async (place: number): Promise<void> => {
    box.scrollTop = place * LINE;
    await fireEvent.scroll(box);
  };
  return { scrollTo, rerender, onNearEnd };
}

it("leaves a line's element where it is while others come and go", async () => {
  const { scrollTo } = drawn(1000);
  await scrollTo(100);
  const kept = screen.getByText("Line 100").parentElement;
  expect(kept?.style.top).toBe(`${100 * LINE}px`);
  expect(screen.queryByText("Line 0")).toBeNull();
  await scrollTo(103);
  expect(screen.getByText("Line 100").parentElement).toBe(kept);
  expect(screen.getAllByRole("listitem").length).toBeLessThan(40);
});

it("says where a line stands among all", async () => {
  const { scrollTo } = drawn(1000);
  await scrollTo(500);
  const item = screen.getByText("Line 500").parentElement;
  expect([item?.getAttribute("aria-posinset"), item?.getAttribute("aria-setsize")]).toEqual(["501", "1000"]);
});

it("asks for more well before its end is seen, and again while there is too little", async () => {
  const { scrollTo, rerender, onNearEnd } = drawn(1000);
  await scrollTo(900);
  expect(onNearEnd).not.toHaveBeenCalled();
  await scrollTo(950);
  expect(onNearEnd).toHaveBeenCalledTimes(1);
  await rerender({ items: numbers(1001) });
  expect(onNearEnd).toHaveBeenCalledTimes(2);
});
