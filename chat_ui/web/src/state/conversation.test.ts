import { waitFor } from "@testing-library/svelte";
import { beforeEach, expect, it, vi, type MockInstance } from "vitest";
import * as api from "../api/chat_api";
import type { Message, WholeConversation } from "../api/chat_types";
import { ApiError, failureOf } from "../api/failure";
import * as streams from "../api/follow_answer";
import type { Followed } from "../api/follow_answer";
import { apiMessage } from "../chat/messages.fixture";
import { Conversation } from "./conversation.svelte";

const SETTINGS = { model: "tiny", system: "", temperature: null, top_p: null, repetition_penalty: null, max_tokens: null, tools_off: [], tools_allowed: [], test_time_compute: null, vector_stores: [] };
const changed = vi.fn();
let follow: MockInstance<typeof streams.followAnswer>;

function whole(messages: readonly Message[], leaf: string | null): WholeConversation {
  const row = { id: "c", title: "Mills", created: 1, updated: 1, model: "tiny", match: null };
  return { ...row, pinned: false, archived: false, shared: true, running: false, settings: SETTINGS, leaf, messages: [...messages] };
}
async function* streamOf(...events: Followed[]): AsyncGenerator<Followed, void, undefined> {
  for (const event of events) yield await Promise.resolve(event);
}
function question(id: string, parent: string | null = null): Message {
  return apiMessage({ id, parent, role: "user", text: `Question ${id}` });
}
function answer(id: string, parent: string, state: Message["state"] = "done"): Message {
  return apiMessage({ id, parent, state, text: state === "done" ? `Answer ${id}` : "" });
}
const texts = (conversation: Conversation): string[] => conversation.path.map(({ text }) => text);

beforeEach(() => {
  changed.mockReset();
  follow = vi.spyOn(streams, "followAnswer").mockImplementation(() => streamOf());
  vi.spyOn(api, "createConversation").mockResolvedValue(whole([], null));
});

it("loads the selected branch, title and settings, and follows nothing that has ended", async () => {
  const conversation = new Conversation({ changed });
  vi.spyOn(api, "readConversation").mockResolvedValue(whole([question("q"), answer("a1", "q"), answer("a2", "q")], "a1"));
  await conversation.load("c");
  expect([conversation.status, conversation.title, conversation.shared, conversation.settings.model]).toEqual(["ready", "Mills", true, "tiny"]);
  expect(texts(conversation)).toEqual(["Question q", "Answer a1"]);
  expect([conversation.busy, follow.mock.calls.length]).toEqual([false, 0]);
});

it("says why it could not be loaded, and keeps what it has when a reload fails", async () => {
  const conversation = new Conversation({ changed });
  const read = vi.spyOn(api, "readConversation").mockRejectedValueOnce(new ApiError(failureOf("network")));
  await conversation.load("c");
  expect([conversation.status, conversation.failure?.kind]).toEqual(["failed", "network"]);
  read.mockResolvedValueOnce(whole([question("q"), answer("a", "q")], "a"));
  await conversation.load("c");
  read.mockRejectedValueOnce(new ApiError(failureOf("busy")));
  await conversation.load("c");
  expect([conversation.status, conversation.path.length, conversation.failure?.kind]).toEqual(["ready", 2, "busy"]);
});

it("creates itself with the first question, and shows the answer as it grows", async () => {
  const conversation = new Conversation({ changed });
  const ask = vi.spyOn(api, "ask").mockResolvedValue({ question: question("q"), answer: answer("a", "q", "waiting") });
  const ended = { ...answer("a", "q"), text: "It mills." };
  follow.mockImplementation(() =>
    streamOf({ type: "text", at: 0, text: "It" }, { type: "lost" }, { type: "ended", message: ended }, { type: "title", title: "A mill" }),
  );
  expect(await conversation.send("What does a mill do?")).toBe(true);
  expect(ask.mock.calls[0]).toMatchObject(["c", { parent: null, text: "What does a mill do?", attachments_of: null }]);
  await waitFor(() => expect(conversation.title).toBe("A mill"));
  expect([conversation.id, texts(conversation)]).toEqual(["c", ["Question q", "It mills."]]);
  expect([conversation.busy, conversation.path[1]?.streaming]).toEqual([false, false]);
  expect(changed).toHaveBeenCalledTimes(3);
});

it("sends one question at a time, and leaves nothing behind if the server refuses it", async () => {
  const conversation = new Conversation({ changed });
  vi.spyOn(api, "ask").mockRejectedValue(new ApiError(failureOf("credit")));
  const sent = [conversation.send("one"), conversation.send("two")];
  expect(await Promise.all(sent)).toEqual([false, false]);
  expect(api.ask).toHaveBeenCalledOnce();
  expect([conversation.failure?.kind, conversation.path, conversation.busy]).toEqual(["credit", [], false]);
});

it("edits a question beside the old one with its files, and regenerates an answer", async () => {
  const conversation = new Conversation({ changed });
  const first = { ...question("q1"), attachments: [{ name: "a.txt", size: 1 }] };
  vi.spyOn(api, "readConversation").mockResolvedValue(whole([first, answer("a1", "q1")], "a1"));
  await conversation.load("c");
  const ask = vi.spyOn(api, "ask").mockResolvedValue({ question: question("q2"), answer: answer("a2", "q2") });
  const [shown, shownAnswer] = conversation.path;
  if (shown === undefined || shownAnswer === undefined) throw new Error("nothing is shown");
  await conversation.edit(shown, "Again");
  expect(ask.mock.calls[0]?.[1]).toMatchObject({ parent: null, text: "Again", attachments: [], attachments_of: "q1" });
  expect(conversation.branchesOf(shown).map(({ id }) => id)).toEqual(["q1", "q2"]);
  const regenerate = vi.spyOn(api, "regenerate").mockResolvedValue({ answer: answer("a3", "q1") });
  await conversation.regenerate(shownAnswer);
  expect(regenerate.mock.calls[0]?.slice(0, 2)).toEqual(["c", "a1"]);
  expect(texts(conversation)).toEqual(["Question q1", "Answer a3"]);
});

it("selects the newest leaf of a sibling's branch, and stores the selection", async () => {
  const conversation = new Conversation({ changed });
  const messages = [question("q1"), answer("a1", "q1"), question("q2"), answer("a2", "q2")];
  vi.spyOn(api, "readConversation").mockResolvedValue(whole(messages, "a1"));
  const change = vi.spyOn(api, "changeConversation").mockRejectedValue(new ApiError(failureOf("network")));
  await conversation.load("c");
  const sibling = conversation.path[0] && conversation.branchesOf(conversation.path[0])[1];
  if (sibling === undefined) throw new Error("there is no sibling");
  await conversation.show(sibling);
  expect(change).toHaveBeenCalledExactlyOnceWith("c", { leaf: "a2" });
  expect([texts(conversation), conversation.failure?.kind]).toEqual([["Question q2", "Answer a2"], "network"]);
});

it("stops the running answer on the server, and follows each answer once until it is closed", async () => {
  const conversation = new Conversation({ changed });
  vi.spyOn(api, "readConversation").mockResolvedValue(whole([question("q"), answer("a", "q", "running")], "a"));
  const stop = vi.spyOn(api, "stopAnswer").mockResolvedValue({});
  let signal: AbortSignal | undefined;
  follow.mockImplementation(async function* (_conversation, _answer, given) {
    signal = given;
    await new Promise((_, reject) => given.addEventListener("abort", () => reject(given.reason as Error)));
    yield { type: "lost" };
  });
  await conversation.load("c");
  await conversation.load("c");
  expect([conversation.busy, follow.mock.calls.length]).toEqual([true, 1]);
  await conversation.stop();
  expect(stop).toHaveBeenCalledExactlyOnceWith("c", "a");
  conversation.close();
  expect(signal?.aborted).toBe(true);
  await waitFor(() => expect(conversation.path[1]?.streaming).toBe(false));
});

it("shows why a stream was refused", async () => {
  const conversation = new Conversation({ changed });
  vi.spyOn(api, "readConversation").mockResolvedValue(whole([question("q"), answer("a", "q", "running")], "a"));
  follow.mockImplementation(() => streamOf({ type: "refused", failure: failureOf("forbidden") }));
  await conversation.load("c");
  await waitFor(() => expect(conversation.path[1]?.failure?.kind).toBe("forbidden"));
  expect(conversation.busy).toBe(false);
});

it("requests an answer again with consent, once or from now on, and withdraws it", async () => {
  const conversation = new Conversation({ changed });
  vi.spyOn(api, "readConversation").mockResolvedValue(whole([question("q1"), answer("a1", "q1")], "a1"));
  await conversation.load("c");
  const shown = conversation.path[1];
  if (shown === undefined) throw new Error("nothing is shown");
  const regenerate = vi.spyOn(api, "regenerate").mockResolvedValue({ answer: answer("a2", "q1") });
  const change = vi.spyOn(api, "changeConversation").mockRejectedValueOnce(new ApiError(failureOf("network")));
  change.mockResolvedValue(whole([question("q1"), answer("a1", "q1")], "a1"));
  const consent = { server: "s", tool: "t", arguments: [], allow: "mcp.s.t@1", allowOnce: "mcp.s.t@2" };
  await conversation.allow(shown, consent, false);
  await conversation.allow(shown, consent, true);
  const sent = regenerate.mock.calls.map(([, , settings, once]) => [settings.tools_allowed, once]);
  expect(sent).toEqual([[[], "mcp.s.t@2"], [["mcp.s.t@1"], null]]);
  await conversation.withdraw("mcp.s.t");
  expect(change.mock.calls[0]?.[1]).toMatchObject({ settings: { tools_allowed: [], test_time_compute: null, vector_stores: [] } });
  expect(conversation.failure).not.toBeNull();
  expect(conversation.settings.toolsAllowed).toEqual(["mcp.s.t@1"]);
  await conversation.withdraw("mcp.s.t");
  expect(conversation.settings.toolsAllowed).toEqual([]);
});
