import { expect, it } from "vitest";
import { withBlock, type Block, type Group } from "./blocks";

const block = (number: number): Block => ({ type: "html", html: String(number) });

it("fills a group before it begins another one, and keeps full groups as they are", () => {
  let groups: readonly Group[] = [];
  for (let number = 0; number < 12; number += 1) groups = withBlock(groups, block(number));
  expect(groups.map((group) => group.length)).toEqual([12]);
  const more = withBlock(groups, block(12));
  expect(more.map((group) => group.length)).toEqual([12, 1]);
  expect(more[0]).toBe(groups[0]);
  expect(withBlock(more, block(13))[0]).toBe(groups[0]);
  expect(withBlock(more, block(13)).flat()).toHaveLength(14);
  expect(more.flat()).toHaveLength(13);
});
