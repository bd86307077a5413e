import { expect, it } from "vitest";
import { draftKey, drafts } from "./drafts";

it("keeps drafts apart by person and conversation, and forgets all of them on request", () => {
  drafts.set(draftKey("ada", null), "new");
  drafts.set(draftKey("ada", "c1"), "one");
  drafts.set(draftKey("eve", "c1"), "hers");
  sessionStorage.setItem("other", "kept");
  expect([draftKey("ada", null), draftKey("ada", "c1"), draftKey("eve", "c1")].map((key) => drafts.get(key))).toEqual(["new", "one", "hers"]);
  drafts.clear();
  expect(drafts.get(draftKey("ada", "c1"))).toBeNull();
  expect(sessionStorage.getItem("other")).toBe("kept");
});
