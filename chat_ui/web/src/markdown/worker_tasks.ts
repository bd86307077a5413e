/**
 * Tasks of the web worker: highlighting code and rendering formulas, with libraries whose loading takes longer than a
 * frame. Results are plain data, since a worker has no document.
 */
import type { Highlighted } from "./highlight_code";

export type Task =
  | { readonly type: "code"; readonly code: string; readonly language: string }
  | { readonly type: "formula"; readonly tex: string; readonly display: boolean }
  /** Loads both libraries, so that the first answer does not wait for them. */
  | { readonly type: "prepare" };

/** A result: highlighted code, MathML, or null. */
export type TaskResult = readonly Highlighted[] | string | null;

export interface WorkerRequest {
  readonly id: number;
  readonly task: Task;
}
export interface WorkerReply {
  readonly id: number;
  readonly done: TaskResult;
}

/** Performs a task; loads its library at the first use. */
export async function perform(task: Task): Promise<TaskResult> {
  switch (task.type) {
    case "code":
      return (await import("./highlight_code")).highlight(task.code, task.language);
    case "formula":
      return (await import("./mathml")).toMathML(task.tex, task.display);
    case "prepare":
      await Promise.all([import("./highlight_code"), import("./mathml")]);
      return null;
  }
}
