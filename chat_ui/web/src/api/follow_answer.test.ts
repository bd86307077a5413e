import { beforeEach, expect, it, vi, type MockInstance } from "vitest";
import { ApiError, failureOf } from "./failure";
import { followAnswer, type Followed } from "./follow_answer";
import * as http from "./http";

const encoder = new TextEncoder();
const END = 'id: 9\nevent: done\ndata: {"message": {"id": "m", "text": "ab"}}\n\n';
let request: MockInstance<typeof http.request>;

function answering(...bodies: (string | Error)[]): void {
  request = vi.spyOn(http, "request");
  for (const body of bodies) {
    if (typeof body !== "string") request.mockRejectedValueOnce(body);
    else request.mockResolvedValueOnce(new Response(encoder.encode(body)));
  }
}

async function follow(signal = new AbortController().signal): Promise<Followed[]> {
  const events: Followed[] = [];
  for await (const event of followAnswer("c", "m", signal)) events.push(event);
  return events;
}

beforeEach(() => {
  vi.stubGlobal("setTimeout", (action: () => void) => queueMicrotask(action));
});

it("resumes a broken stream after its last event, until the end", async () => {
  const cut = 'id: 5\nevent: text\ndata: {"at": 0, "text": "a"}\n\n: ping\n\nid: 6\nevent: te';
  answering(cut, new ApiError(failureOf("network")), new ApiError(failureOf("busy")), END);
  expect((await follow()).map(({ type }) => type)).toEqual(["text", "lost", "lost", "lost", "ended"]);
  expect(request.mock.calls.map(([, , options]) => options?.headers?.["last-event-id"])).toEqual([undefined, "5", "5", "5"]);
});

it("yields the title that comes after the end, and does not reconnect", async () => {
  answering(`${END}event: title\ndata: {"title": "Mills"}\n\n`);
  expect((await follow()).at(-1)).toEqual({ type: "title", title: "Mills" });
  expect(request).toHaveBeenCalledTimes(1);
});

it("gives up if the server refuses the stream", async () => {
  answering(new ApiError(failureOf("model-not-found")));
  expect(await follow()).toMatchObject([{ type: "refused" }]);
});

it("ends when aborted, also while waiting to reconnect", async () => {
  answering("");
  const abort = new AbortController();
  const events: Followed[] = [];
  const following = (async () => {
    for await (const event of followAnswer("c", "m", abort.signal)) {
      events.push(event);
      abort.abort();
    }
  })();
  await expect(following).rejects.toThrow();
  expect(events).toEqual([{ type: "lost" }]);
});
