import { fireEvent, render, screen } from "@testing-library/svelte";
import { createRawSnippet } from "svelte";
import { expect, it, vi } from "vitest";
import VirtualList from "./VirtualList.svelte";

const ROW_HEIGHT = 44;
const row = createRawSnippet<[number]>((item) => ({ render: () => `<a href="/c/${item()}">Row ${item()}</a>` }));
const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);

function drawn(count: number, onNearEnd = vi.fn()) {
  const props = { label: "Rows", items: numbers(count), keyOf: String, rowHeight: ROW_HEIGHT, row, isFocusable: () => true, onNearEnd };
  const { container, rerender } = render(VirtualList<number>, props);
  const box = container.querySelector<HTMLElement>(".box") ?? container;
  const scrollTo = async (place: number): Promise<void> => {
    box.scrollTop = place * ROW_HEIGHT;
    await fireEvent.scroll(box);
  };
  return { scrollTo, rerender, onNearEnd };
}

it("keeps a row's element while others are added and removed", async () => {
  const { scrollTo } = drawn(1000);
  await scrollTo(100);
  const kept = screen.getByText("Row 100").parentElement;
  expect(kept?.style.top).toBe(`${100 * ROW_HEIGHT}px`);
  expect(screen.queryByText("Row 0")).toBeNull();
  await scrollTo(103);
  expect(screen.getByText("Row 100").parentElement).toBe(kept);
  expect(screen.getAllByRole("listitem").length).toBeLessThan(40);
});

it("gives each row its position in the whole list", async () => {
  const { scrollTo } = drawn(1000);
  await scrollTo(500);
  const item = screen.getByText("Row 500").parentElement;
  expect([item?.getAttribute("aria-posinset"), item?.getAttribute("aria-setsize")]).toEqual(["501", "1000"]);
});

it("requests more rows well before the end is in view, and again while there are too few", async () => {
  const { scrollTo, rerender, onNearEnd } = drawn(1000);
  await scrollTo(900);
  expect(onNearEnd).not.toHaveBeenCalled();
  await scrollTo(950);
  expect(onNearEnd).toHaveBeenCalledTimes(1);
  await rerender({ items: numbers(1001) });
  expect(onNearEnd).toHaveBeenCalledTimes(2);
});
