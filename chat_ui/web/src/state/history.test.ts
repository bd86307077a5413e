import { beforeEach, expect, it, vi, type MockInstance } from "vitest";
import * as api from "../api/chat_api";
import type { ConversationPage, ConversationSummary } from "../api/chat_types";
import { ApiError, failureOf } from "../api/failure";
import { History } from "./history.svelte";

let list: MockInstance<typeof api.listConversations>;

function summary(id: string): ConversationSummary {
  const flags = { pinned: false, archived: false, shared: false, running: false };
  return { id, title: id, created: 1, updated: 1, model: "m", match: null, ...flags };
}
function page(ids: readonly string[], next: string | null = null, total: number | null = null): ConversationPage {
  return { conversations: ids.map(summary), next, total };
}
const ids = (history: History): string[] => history.list.map(({ id }) => id);

beforeEach(() => {
  list = vi.spyOn(api, "listConversations").mockResolvedValue(page(["a", "b"], "next"));
});

it("loads page after page, and lists a conversation that has moved between them once", async () => {
  const history = new History();
  await history.load();
  expect([history.complete, history.loading]).toEqual([false, false]);
  list.mockResolvedValueOnce(page(["b", "c"]));
  await history.loadMore();
  expect(list.mock.lastCall?.[0]).toMatchObject({ cursor: "next", q: "", archived: false });
  expect([ids(history), history.complete]).toEqual([["a", "b", "c"], true]);
  await history.loadMore();
  expect(list).toHaveBeenCalledTimes(2);
});

it("shows the newest search even if an older one is answered later", async () => {
  const history = new History();
  let answerFirst: (page: ConversationPage) => void = () => undefined;
  list.mockReturnValueOnce(new Promise((resolve) => (answerFirst = resolve)));
  const first = history.search("mil");
  list.mockResolvedValueOnce(page(["mill"], null, 1));
  await history.search("mill");
  answerFirst(page(["milk", "mill"], null, 2));
  await first;
  expect([ids(history), history.total, history.query, history.loading]).toEqual([["mill"], 1, "mill", false]);
});

it("clears the selection for a new search", async () => {
  const history = new History();
  history.toggle("a");
  history.toggle("b");
  history.toggle("a");
  expect([...history.selected]).toEqual(["b"]);
  await history.search("x");
  expect(history.selected.size).toBe(0);
});

it("updates a listed conversation, and reloads for an unknown one unless it searches", async () => {
  const history = new History();
  await history.load();
  history.update("a", { title: "Mills" });
  expect([history.list[0]?.title, list.mock.calls.length]).toEqual(["Mills", 1]);
  history.update("new", { title: "New" });
  expect(list).toHaveBeenCalledTimes(2);
  await history.search("x");
  history.update("newer", {});
  expect(list).toHaveBeenCalledTimes(3);
});

it("renames in place, drops what is archived, and reloads after pinning", async () => {
  const history = new History();
  const change = vi.spyOn(api, "changeConversation").mockResolvedValue(summary("a"));
  await history.load();
  expect(await history.change("a", { title: "Mills" })).toBe(true);
  expect(history.list[0]?.title).toBe("Mills");
  await history.change("a", { archived: true });
  expect(ids(history)).toEqual(["b"]);
  await history.change("b", { pinned: true });
  expect([change.mock.calls.length, list.mock.calls.length, ids(history)]).toEqual([3, 2, ["a", "b"]]);
});

it("keeps what could not be deleted, and says why", async () => {
  const history = new History();
  const remove = vi.spyOn(api, "deleteConversation");
  await history.load();
  history.toggle("a");
  remove.mockResolvedValueOnce(undefined).mockRejectedValueOnce(new ApiError(failureOf("busy")));
  expect(await history.remove(["a", "b"])).toBe(false);
  expect([ids(history), history.selected.size, history.failure?.kind]).toEqual([["b"], 0, "busy"]);
  remove.mockRejectedValueOnce(new RangeError("a bug"));
  await expect(history.remove(["b"])).rejects.toThrow("a bug");
});
