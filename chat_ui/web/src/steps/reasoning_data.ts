/** The reasoning of a model before its answer, decoded from the untrusted JSON of its step. */
import type { Step } from "../api/chat_types";
import { asNumber } from "../api/json";
import { texts } from "../ui/messages";
import { language } from "../ui/messages/language.svelte";
import { text } from "./step_data";

export interface Reasoning {
  readonly title: string;
  readonly running: boolean;
  /** Empty: not kept. */
  readonly text: string;
  /** Whether a part of the text is not kept. */
  readonly cut: boolean;
}

const MINUTE = 60;

export function reasoningOf(step: Step): Reasoning {
  const running = step.state === "running";
  const seconds = asNumber(step.data["seconds"]);
  const time = seconds === null ? "" : duration(seconds);
  const title = running ? texts.reasoningRunning(time) : texts.reasoningTook(time);
  return { title, running, text: text(step.data["text"]), cut: step.data["cut"] === true };
}

/** Formats seconds in the unit's short form: `12 s`, or `2 min 5 s` from a minute on. */
function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole >= MINUTE) return `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`;
  return `${(seconds < 10 ? seconds : whole).toLocaleString(language.locale, { maximumFractionDigits: 1 })} s`;
}
