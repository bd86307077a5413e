import { expect, it } from "vitest";
import { codeChunks } from "./code_chunks";

const lines = (count: number): string => Array.from({ length: count }, (_, number) => `line ${number}`).join("\n");

it("splits at whole lines and loses none", () => {
  const chunks = codeChunks(lines(95));
  expect(chunks.map((chunk) => chunk.split("\n").length)).toEqual([40, 40, 15]);
  expect(chunks.join("\n")).toBe(lines(95));
});

it("leaves earlier chunks as they are while code grows", () => {
  expect(codeChunks(lines(100)).slice(0, 2)).toEqual(codeChunks(lines(81)).slice(0, 2));
  expect(codeChunks("")).toEqual([""]);
});
