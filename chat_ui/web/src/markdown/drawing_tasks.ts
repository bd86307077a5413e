/**
 * Tasks of the web worker: highlighting code and rendering formulas, with libraries whose loading takes longer than a
 * frame. Results are plain data, since a worker has no document.
 */
import type { Coloured } from "./colour_code";

export type Task =
  | { readonly type: "code"; readonly code: string; readonly language: string }
  | { readonly type: "formula"; readonly tex: string; readonly display: boolean }
  /** Loads both libraries, so that the first answer does not wait for them. */
  | { readonly type: "prepare" };

/** A result: highlighted code, MathML, or null. */
export type Done = readonly Coloured[] | string | null;

export interface Asked {
  readonly id: number;
  readonly task: Task;
}
export interface Reply {
  readonly id: number;
  readonly done: Done;
}

/** Performs a task; loads its library at the first use. */
export async function perform(task: Task): Promise<Done> {
  switch (task.type) {
    case "code":
      return (await import("./colour_code")).colour(task.code, task.language);
    case "formula":
      return (await import("./math")).mathML(task.tex, task.display);
    case "prepare":
      await Promise.all([import("./colour_code"), import("./math")]);
      return null;
  }
}
