import { expect, it } from "vitest";
import type { ConversationSummary } from "../api/chat_types";
import { splitAtMatches } from "./search_matches";
import { listRows } from "./list_rows";

const NOW = new Date(2026, 10, 21, 0, 30);
const talk = (id: string, date: Date, pinned = false): ConversationSummary => ({
  id,
  title: id,
  created: 0,
  updated: date.getTime() / 1000,
  pinned,
  archived: false,
  shared: false,
  model: "",
  running: false,
  match: null,
});
const LIST = [
  talk("p", new Date(2020, 1, 1), true),
  talk("a", NOW),
  talk("b", new Date(2026, 10, 20, 23, 59)),
  talk("c", new Date(2026, 10, 16)),
  talk("d", new Date(2026, 9, 1)),
  talk("e", new Date(2026, 9, 2)),
];

it("groups conversations by local day", () => {
  const rows = listRows(LIST, NOW, true).map((row) => (row.type === "heading" ? `# ${row.text}` : row.key));
  expect(rows).toEqual(
    ["# Pinned", "p", "# Today", "a", "# Yesterday", "b", "# Last seven days", "c", "# October 2026", "d", "e"],
  );
});

it("has no headings for search results", () => {
  expect(listRows(LIST, NOW, false).map((row) => row.key)).toEqual(["p", "a", "b", "c", "d", "e"]);
});

it("marks matches at beginnings of words, and takes special characters literally", () => {
  const found = (text: string, query: string) => splitAtMatches(text, query).filter((piece) => piece.found).map((piece) => piece.text);
  expect(found("Mills and a Mill; Windmill", "mill")).toEqual(["Mill", "Mill"]);
  expect(found("Łódź i łódka", "łód ka")).toEqual(["Łód", "łód"]);
  expect(found("a+b (c)", "a+b (c [")).toEqual(["a+b", "(c"]);
  expect(splitAtMatches("<b>x</b>", "")).toEqual([{ text: "<b>x</b>", found: false }]);
});
