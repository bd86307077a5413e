/**
 * What the page's second thread does for it: colours code and typesets formulas, by libraries that take longer to
 * start than a frame lasts. Answers are plain data, since a thread has no document.
 */
import type { Coloured } from "./colour_code";

export type Task =
  | { readonly type: "code"; readonly code: string; readonly language: string }
  | { readonly type: "formula"; readonly tex: string; readonly display: boolean }
  /** Both libraries are loaded, so that the first answer does not wait for them. */
  | { readonly type: "prepare" };

/** Coloured code, MathML, or nothing. */
export type Done = readonly Coloured[] | string | null;

export interface Asked {
  readonly id: number;
  readonly task: Task;
}
export interface Reply {
  readonly id: number;
  readonly done: Done;
}

/** The libraries are loaded when they are first needed. */
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
