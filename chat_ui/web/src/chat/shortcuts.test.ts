import { expect, it } from "vitest";
import { shortcutOf } from "./shortcuts";

it.each([
  [{ key: "O", ctrlKey: true, shiftKey: true }, "new"],
  [{ key: "k", metaKey: true }, "search"],
  [{ key: "K", ctrlKey: true, shiftKey: true }, null],
  [{ key: "S", ctrlKey: true, shiftKey: true }, "list"],
  [{ key: "/", ctrlKey: true }, "help"],
  [{ key: "/", ctrlKey: true, shiftKey: true }, "help"],
  [{ key: "Escape", shiftKey: true }, "message"],
  [{ key: "Escape" }, null],
  [{ key: "k" }, null],
  [{ key: "k", ctrlKey: true, altKey: true }, null],
  [{ key: "k", ctrlKey: true, isComposing: true }, null],
])("reads %o", (keys, meaning) => {
  expect(shortcutOf(new KeyboardEvent("keydown", keys))).toBe(meaning);
});
