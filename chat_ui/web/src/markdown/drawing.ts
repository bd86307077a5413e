/**
 * The page's side of its second thread, which is started when it is first needed. Where there is nothing to show, or
 * the thread can't be loaded, the answer is null, and what was to be drawn stays as it was written.
 */
import type { Coloured } from "./colour_code";
import type { Asked, Done, Reply, Task } from "./drawing_tasks";

let thread: Worker | null = null;
let asked = 0;
const waiting = new Map<number, (done: Done) => void>();

/** Code in pieces with their classes; null for a language that is not known. */
export async function colour(code: string, language: string): Promise<readonly Coloured[] | null> {
  const done = await ask({ type: "code", code, language });
  return typeof done === "string" ? null : done;
}

/** MathML, not sanitised yet. */
export async function typeset(tex: string, display: boolean): Promise<string | null> {
  const done = await ask({ type: "formula", tex, display });
  return typeof done === "string" ? done : null;
}

/** Starts the thread with all it needs. */
export function prepareDrawing(): void {
  void ask({ type: "prepare" });
}

function ask(task: Task): Promise<Done> {
  thread ??= start();
  const message: Asked = { id: (asked += 1), task };
  thread.postMessage(message);
  return new Promise((resolve) => waiting.set(message.id, resolve));
}

function start(): Worker {
  const worker = new Worker(new URL("./drawing_worker.ts", import.meta.url), { type: "module", name: "drawing" });
  // With the next frame, as all that changes while a text grows: the browser lays it out once.
  worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => requestAnimationFrame(() => settle(data)));
  worker.addEventListener("error", giveUp);
  return worker;
}

function settle({ id, done }: Reply): void {
  waiting.get(id)?.(done);
  waiting.delete(id);
}

/** It could not be loaded: the next that is to be drawn tries again. */
function giveUp(): void {
  thread?.terminate();
  thread = null;
  for (const resolve of waiting.values()) resolve(null);
  waiting.clear();
}
