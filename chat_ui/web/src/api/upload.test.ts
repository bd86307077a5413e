import { afterEach, beforeEach, expect, it, vi } from "vitest";
import * as http from "./http";
import { upload } from "./upload";

/** A request that a test answers. */
class FakeRequest {
  static sent: FakeRequest[] = [];
  readonly headers: Record<string, string> = {};
  readonly upload: { onprogress?: (event: { loaded: number }) => void } = {};
  url = "";
  status = 0;
  responseText = "";
  onload = (): void => undefined;
  onerror = (): void => undefined;
  onabort = (): void => undefined;
  open(_method: string, url: string): void {
    this.url = url;
  }
  setRequestHeader(name: string, value: string): void {
    this.headers[name] = value;
  }
  getResponseHeader(): null {
    return null;
  }
  send(): void {
    FakeRequest.sent.push(this);
  }
  abort(): void {
    this.onabort();
  }
  answer(status: number, responseText = "{}"): void {
    [this.status, this.responseText] = [status, responseText];
    this.onload();
  }
}

const FILE = new File(["text"], "a & b.txt");
const onSent = vi.fn();
let ending: AbortController;

beforeEach(() => {
  FakeRequest.sent = [];
  ending = new AbortController();
  onSent.mockClear();
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
});
afterEach(() => vi.unstubAllGlobals());

function begin(): Promise<void> {
  return upload("/collections/vs_1/files", FILE, onSent, ending.signal);
}

it("sends the file with its name and the CSRF header, and tells the bytes that are sent", async () => {
  const done = begin();
  const [sent] = FakeRequest.sent;
  expect(sent?.url).toBe("/api/collections/vs_1/files?name=a+%26+b.txt");
  expect(Object.keys(sent?.headers ?? {})).toEqual(["content-type", "x-csrf-token"]);
  sent?.upload.onprogress?.({ loaded: 3 });
  expect(onSent).toHaveBeenCalledWith(3);
  sent?.answer(201);
  await done;
});

it("refreshes a lapsed session and sends the file once more", async () => {
  vi.spyOn(http, "refresh").mockResolvedValue(true);
  const done = begin();
  FakeRequest.sent[0]?.answer(401);
  await vi.waitFor(() => expect(FakeRequest.sent).toHaveLength(2));
  FakeRequest.sent[1]?.answer(201);
  await done;
});

it("fails with the server's error, without a network, and when it is cancelled", async () => {
  const refused = begin();
  FakeRequest.sent[0]?.answer(409, '{"error": {"code": "storage_full", "message": "Full."}}');
  await expect(refused).rejects.toMatchObject({ failure: { code: "storage_full", detail: "Full." } });
  const offline = begin();
  FakeRequest.sent[1]?.onerror();
  await expect(offline).rejects.toMatchObject({ failure: { code: "network" } });
  const cancelled = begin();
  ending.abort();
  await expect(cancelled).rejects.toMatchObject({ name: "AbortError" });
});
