/** One-line texts of an assistant's steps. */
import type { Step } from "../api/chat_types";
import { asObject } from "../api/json";
import { count } from "../ui/format";
import { texts } from "../ui/messages";
import { resultOf, subjectOf, summaryOf, text } from "./step_data";
import { toolName, toolRunning } from "./tool_names";

/** Returns the line of a rewrite, route or summary step; empty if there is nothing to tell. */
export function stepLine(step: Step): string {
  if (step.state !== "done") return "";
  if (step.kind === "rewrite") return text(step.data["to"]) === "" ? "" : texts.understoodAs(text(step.data["to"]));
  if (step.kind === "route") {
    const choice = text(step.data["choice"]);
    return choice === "" || choice === "none" ? "" : routeLine(choice, subjectOf(step.data));
  }
  if (step.kind !== "summary") return "";
  const { dropped, text: summary } = summaryOf(step);
  if (dropped === 0) return "";
  return summary === "" ? texts.leftOut(count(dropped), dropped) : texts.summarised(count(dropped), dropped);
}

/** Tools that look something up; others calculate, draw or do what their servers do. */
const LOOK_UP = new Set(["weather", "wikipedia", "web_page"]);

function routeLine(tool: string, subject: string): string {
  const name = tool === "weather" ? toolName(tool).toLocaleLowerCase(texts.locale) : toolName(tool);
  const what = subject === "" ? name : `${name} · ${subject}`;
  return LOOK_UP.has(tool) ? texts.lookedUp(what) : texts.used(what);
}

/** Returns the heading of a tool's card: its name, and what it was called for. */
export function toolTitle(step: Step): string {
  const result = resultOf(step);
  const subject = result?.type === "weather" ? result.place : subjectOf(step.data);
  return subject === "" ? toolName(step.name) : `${toolName(step.name)} · ${subject}`;
}

/** Returns why a step failed, in plain words. */
export function problemOf(step: Step): string {
  const error = asObject(step.data["error"]);
  if (error?.["code"] === "stopped") return texts.stepStopped;
  return text(error?.["message"]) || texts.stepFailed;
}

/** Returns what to announce while an answer is written: that the model thinks, or the last tool or search that runs or has failed. */
export function announcementOf(steps: readonly Step[]): string {
  if (steps.at(-1)?.kind === "reasoning" && steps.at(-1)?.state === "running") return texts.reasoningAnnounced;
  const last = steps.findLast(({ kind }) => ["tool", "search", "file_search"].includes(kind));
  if (last?.state === "running") {
    if (last.kind === "file_search") return texts.fileSearchRunning;
    return last.kind === "search" ? texts.searchRunning : toolRunning(last.name);
  }
  return last?.state === "failed" ? problemOf(last) : "";
}
