import { expect, it } from "vitest";
import { citationsOf, fileSearchOf } from "./file_search_data";
import { FILE_SEARCH, step } from "./steps.fixture";

it("reads the passages that an answer can cite", () => {
  const searched = step({ kind: "file_search", name: "", data: FILE_SEARCH });
  expect(fileSearchOf(searched)).toMatchObject({ found: 12, quoted: 2, tokens: 900, maxTokens: 2048 });
  expect([...citationsOf([step(), searched]).values()]).toEqual([
    {
      number: 1,
      name: "lease.pdf",
      place: "page 3 · Lease › Rent",
      title: "Source 1: lease.pdf, page 3 · Lease › Rent",
      href: "/documents/vs_1/file-1/7",
    },
    { number: 2, name: "notes.md", place: "", title: "Source 2: notes.md", href: "/documents/vs_1/file-2/0" },
  ]);
});

it("leaves out passages of another form", () => {
  const passages = [null, {}, { ...FILE_SEARCH.passages[0], file_id: 7 }, { ...FILE_SEARCH.passages[0], passage: -1 }];
  expect(fileSearchOf(step({ kind: "file_search", data: { passages } })).citations).toEqual([]);
});
