import { expect, it } from "vitest";
import { leafBelow, pathTo, siblingsOf } from "./tree";

const node = (id: string, parent: string | null, created: number) => ({ id, parent, created });
const TREE = {
  q1: node("q1", null, 1),
  a1: node("a1", "q1", 2),
  a2: node("a2", "q1", 3),
  q2: node("q2", "a1", 4),
  b1: node("b1", null, 5),
};

it("gives the path from the root to a leaf", () => {
  expect(pathTo(TREE, "q2").map(({ id }) => id)).toEqual(["q1", "a1", "q2"]);
  expect([pathTo(TREE, null), pathTo(TREE, "gone")]).toEqual([[], []]);
});

it("breaks cycles", () => {
  const circle = { x: node("x", "y", 1), y: node("y", "x", 2) };
  expect(pathTo(circle, "x")).toHaveLength(2);
});

it("gives the siblings of a node, oldest first, also of a root", () => {
  expect(siblingsOf(TREE, TREE.a2).map(({ id }) => id)).toEqual(["a1", "a2"]);
  expect(siblingsOf(TREE, TREE.q1).map(({ id }) => id)).toEqual(["q1", "b1"]);
});

it("finds the leaf below a node through the newest children", () => {
  expect([leafBelow(TREE, "q1"), leafBelow(TREE, "a1"), leafBelow(TREE, "b1")]).toEqual(["a2", "q2", "b1"]);
});
