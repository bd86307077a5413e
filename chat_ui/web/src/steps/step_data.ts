/**
 * Results of an assistant's steps, decoded from untrusted JSON: tools got them from other services. Only the fields
 * defined here pass, links only to http and https, images only from this server.
 */
import type { Step } from "../api/chat_types";
import { asCount, asList, asNumber, asObject, asText, type Json } from "../api/json";

export interface Source {
  readonly name: string;
  readonly url: string | null;
  readonly licence: string;
}
export interface Hour {
  /** Local time at the place, `2026-11-24T15:00`. */
  readonly at: string;
  readonly temperature: number;
  readonly precipitation: number;
}
export interface Day {
  readonly date: string;
  readonly min: number;
  readonly max: number;
  readonly description: string;
  readonly precipitation: number | null;
}
export interface Weather {
  readonly type: "weather";
  readonly place: string;
  readonly now: {
    readonly temperature: number;
    readonly description: string;
    readonly feelsLike: number | null;
    readonly humidity: number | null;
    readonly wind: number | null;
  };
  readonly hours: readonly Hour[];
  readonly days: readonly Day[];
  readonly source: Source | null;
}
export interface Article {
  readonly type: "article";
  readonly title: string;
  readonly extract: string;
  readonly url: string | null;
  readonly language: string;
  readonly source: Source | null;
}
export interface Plot {
  readonly x: readonly number[];
  /** null: the function has no value there. */
  readonly y: readonly (number | null)[];
  readonly xLabel: string;
  readonly yLabel: string;
}
export interface Mathematics {
  readonly type: "mathematics";
  readonly input: string;
  readonly result: string;
  readonly text: string;
  readonly numeric: number | null;
  readonly plot: Plot | null;
}
export interface WebPage {
  readonly type: "page";
  readonly title: string;
  readonly url: string | null;
  readonly text: string;
  readonly fetchedAt: number | null;
}
export interface Images {
  readonly type: "image";
  readonly prompt: string;
  /** The prompt that was drawn, if it differs. */
  readonly drawnFrom: string;
  /** Addresses at this server. */
  readonly urls: readonly string[];
}
export interface Mcp {
  readonly type: "mcp";
  readonly server: string;
  readonly tool: string;
  readonly text: string;
  readonly isError: boolean;
}
export type StepResult = Weather | Article | Mathematics | WebPage | Images | Mcp;

/** Most characters of an article's, page's or tool's text that a card shows. */
const MAX_SHOWN = 1_200;
const MAX_POINTS = 2_000;
const MAX_IMAGES = 10;

/** Returns the result of an ended step; null if it has none, or one of an unknown form. */
export function resultOf(step: Step): StepResult | null {
  const result = asObject(step.data["result"]);
  switch (result?.["type"]) {
    case "weather":
      return weather(result);
    case "article":
      return article(result);
    case "mathematics":
      return mathematics(result);
    case "page":
      return page(result);
    case "image":
      return images(result);
    case "mcp":
      return mcp(result);
    default:
      return null;
  }
}

/** Request for the person's consent to a call of a tool. */
export interface Consent {
  readonly server: string;
  readonly tool: string;
  /** Name and value of each argument, as text. */
  readonly arguments: readonly (readonly [string, string])[];
  /** What allows the tool as its server describes it now. */
  readonly allow: string;
  /** What allows this call alone. */
  readonly allowOnce: string;
}

/** Returns the consent that a failed step asks for; null if it asks for none, or its form is wrong. */
export function consentOf(step: Step): Consent | null {
  const error = asObject(step.data["error"]);
  if (step.state !== "failed" || error?.["code"] !== "consent") return null;
  const [allow, allowOnce] = [text(error["allow"]), text(error["allow_once"])];
  const isForTool = (each: string) => each.startsWith(`${step.name}@`) && /^[0-9a-f]{64}$/.test(each.slice(step.name.length + 1));
  if (!isForTool(allow) || !isForTool(allowOnce)) return null;
  const given = Object.entries(asObject(step.data["arguments"]) ?? {});
  const values = given.map(([name, value]) => [name, shortened(asText(value) ?? JSON.stringify(value), MAX_SHOWN)] as const);
  return { server: text(error["server"]), tool: text(error["tool"]), arguments: values, allow, allowOnce };
}

/** Returns what a tool was called for, such as a place or a topic, as one line; empty if nothing says it. */
export function subjectOf(data: Json): string {
  const values = Object.entries(asObject(data["arguments"]) ?? {});
  const named = ["place", "topic", "expression", "url", "prompt", "query"];
  const [, value] = values.find(([name, each]) => named.includes(name) && text(each) !== "") ?? ["", ""];
  return shortened(text(value).replace(/\s+/g, " ").trim(), 120);
}

/** Returns a link's address if it is one of http or https, else null. */
export function safeLink(value: unknown): string | null {
  const address = text(value);
  return /^https?:\/\//i.test(address) && URL.canParse(address) ? address : null;
}

/** Returns an image's address if it is the one of a stored object at this server, else null. */
export function ownImage(value: unknown): string | null {
  const address = text(value);
  return /^\/v1\/blobs\/[A-Za-z0-9_]+(\?[A-Za-z0-9=&]*)?$/.test(address) ? address : null;
}

function weather(result: Json): Weather | null {
  const place = asObject(result["place"]) ?? {};
  const now = asObject(result["now"]);
  const temperature = asNumber(now?.["temperature"]);
  if (now === null || temperature === null) return null;
  const names = ["name", "region", "country"].map((each) => text(place[each])).filter((each) => each !== "");
  return {
    type: "weather",
    place: [...new Set(names)].join(", "),
    now: {
      temperature,
      description: text(now["description"]),
      feelsLike: asNumber(now["feels_like"]),
      humidity: asNumber(now["humidity"]),
      wind: asNumber(now["wind"]),
    },
    hours: distinct(objects(result["hours"], hour), ({ at }) => at.slice(0, 16)).slice(0, 48),
    days: distinct(objects(result["days"], day), ({ date }) => date).slice(0, 16),
    source: sourceOf(result),
  };
}

/** Returns the first item of each key. */
function distinct<T>(items: readonly T[], keyOf: (item: T) => string): T[] {
  const keys = items.map(keyOf);
  return items.filter((_, index) => keys.indexOf(keys[index] ?? "") === index);
}

function hour(value: Json): Hour | null {
  const [at, temperature] = [asText(value["at"]), asNumber(value["temperature"])];
  if (at === null || temperature === null || Number.isNaN(Date.parse(at))) return null;
  return { at, temperature, precipitation: Math.max(0, asNumber(value["precipitation"]) ?? 0) };
}

function day(value: Json): Day | null {
  const [date, min, max] = [asText(value["date"]), asNumber(value["min"]), asNumber(value["max"])];
  if (date === null || min === null || max === null || Number.isNaN(Date.parse(date))) return null;
  return { date, min, max, description: text(value["description"]), precipitation: asNumber(value["precipitation"]) };
}

function article(result: Json): Article {
  return {
    type: "article",
    title: text(result["title"]),
    extract: shortened(text(result["extract"]), MAX_SHOWN),
    url: safeLink(result["url"]),
    language: text(result["language"]),
    source: sourceOf(result),
  };
}

function mathematics(result: Json): Mathematics {
  return {
    type: "mathematics",
    input: text(result["input_latex"]),
    result: text(result["result_latex"]),
    text: text(result["result_text"]),
    numeric: asNumber(result["numeric"]),
    plot: plotOf(asObject(result["plot"])),
  };
}

function plotOf(plot: Json | null): Plot | null {
  if (plot === null) return null;
  const x = asList(plot["x"]).map(asNumber);
  const y = asList(plot["y"]).map(asNumber);
  const known = x.filter((each) => each !== null);
  if (x.length !== y.length || x.length < 2 || x.length > MAX_POINTS || known.length !== x.length) return null;
  if (y.every((each) => each === null)) return null;
  return { x: known, y, xLabel: text(plot["x_label"]) || text(plot["variable"]), yLabel: text(plot["y_label"]) };
}

function page(result: Json): WebPage {
  const fetched = result["fetched_at"];
  const parsed = typeof fetched === "string" ? Date.parse(fetched) / 1000 : NaN;
  return {
    type: "page",
    title: text(result["title"]),
    url: safeLink(result["url"]),
    text: shortened(text(result["text"]), MAX_SHOWN),
    fetchedAt: asNumber(fetched) ?? asNumber(parsed),
  };
}

function images(result: Json): Images {
  const [prompt, sent] = [text(result["prompt"]), text(result["prompt_sent"])];
  const urls = objects(result["images"], (each) => ownImage(each["url"]));
  return { type: "image", prompt, drawnFrom: sent === prompt ? "" : sent, urls: urls.slice(0, MAX_IMAGES) };
}

function mcp(result: Json): Mcp {
  const parts = objects(result["content"], (each) => asText(each["text"]));
  const shown = shortened(parts.join("\n\n"), MAX_SHOWN);
  return { type: "mcp", server: text(result["server"]), tool: text(result["tool"]), text: shown, isError: result["is_error"] === true };
}

function sourceOf(result: Json): Source | null {
  const source = asObject(result["source"]);
  const name = text(source?.["name"]);
  return name === "" ? null : { name, url: safeLink(source?.["url"]), licence: text(source?.["licence"]) };
}

/** Returns the messages that a summary step left out, and its text. */
export function summaryOf(step: Step): { readonly dropped: number; readonly text: string } {
  return { dropped: asCount(step.data["dropped"]) ?? 0, text: text(step.data["text"]) };
}

export function text(value: unknown): string {
  return asText(value) ?? "";
}

/** Returns what `read` makes of the objects in a list, without null. */
export function objects<T>(value: unknown, read: (each: Json) => T | null): T[] {
  return asList(value).map((each) => { const object = asObject(each); return object === null ? null : read(object); }).filter((each) => each !== null);
}

/** Returns a text of at most `most` characters and an ellipsis. */
export function shortened(value: string, most: number): string {
  return value.length <= most ? value : `${value.slice(0, most).trimEnd()}…`;
}
