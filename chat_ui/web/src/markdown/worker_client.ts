/**
 * Client of the web worker that highlights code and renders formulas; the worker starts at the first call. If it fails
 * or can't be loaded, results are null, and the page keeps showing the source text.
 */
import type { Highlighted } from "./highlight_code";
import type { WorkerRequest, TaskResult, WorkerReply, Task } from "./worker_tasks";

let thread: Worker | null = null;
let asked = 0;
const waiting = new Map<number, (done: TaskResult) => void>();

/** Returns highlighted code; null for an unknown language. */
export async function highlight(code: string, language: string): Promise<readonly Highlighted[] | null> {
  const done = await ask({ type: "code", code, language });
  return typeof done === "string" ? null : done;
}

/** Returns a formula as MathML, which is not sanitised yet. */
export async function renderFormula(tex: string, display: boolean): Promise<string | null> {
  const done = await ask({ type: "formula", tex, display });
  return typeof done === "string" ? done : null;
}

/** Starts the worker and loads its libraries. */
export function startWorker(): void {
  void ask({ type: "prepare" });
}

function ask(task: Task): Promise<TaskResult> {
  thread ??= start();
  const message: WorkerRequest = { id: (asked += 1), task };
  thread.postMessage(message);
  return new Promise((resolve) => waiting.set(message.id, resolve));
}

function start(): Worker {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name: "drawing" });
  // In the next frame, like all changes of a growing text, so that the browser lays out once.
  worker.addEventListener("message", ({ data }: MessageEvent<WorkerReply>) => requestAnimationFrame(() => settle(data)));
  worker.addEventListener("error", giveUp);
  return worker;
}

function settle({ id, done }: WorkerReply): void {
  waiting.get(id)?.(done);
  waiting.delete(id);
}

/** After a loading error, resolves all tasks with null; the next task starts a new worker. */
function giveUp(): void {
  thread?.terminate();
  thread = null;
  for (const resolve of waiting.values()) resolve(null);
  waiting.clear();
}
