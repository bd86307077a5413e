/** The search in documents before an answer, decoded from untrusted JSON: names and headings are those of files. */
import type { Step } from "../api/chat_types";
import { asCount, asList, asText, type Json } from "../api/json";
import type { CitationLink } from "../markdown/citation_links";
import { href } from "../router/routes";
import { count } from "../ui/format";
import { texts } from "../ui/messages";
import { objects, shortened, text } from "./step_data";

/** A passage that the answer can cite by its number. */
export interface Citation extends CitationLink {
  readonly number: number;
  readonly name: string;
  /** Page and headings of the passage, in words; empty if neither is known. */
  readonly place: string;
}

export interface FileSearch {
  readonly query: string;
  /** Number of passages that were found, and of those that the prompt had room for. */
  readonly found: number;
  readonly quoted: number;
  /** Estimated tokens of the quoted passages, and the most that they may have. */
  readonly tokens: number;
  readonly maxTokens: number;
  readonly citations: readonly Citation[];
}

const MAX_CITATIONS = 64;
const MAX_NAME = 200;

/** Returns the search of a step of kind `file_search`. */
export function fileSearchOf({ data }: Step): FileSearch {
  return {
    query: shortened(text(data["query"]), MAX_NAME),
    found: asCount(data["found"]) ?? 0,
    quoted: asCount(data["quoted"]) ?? 0,
    tokens: asCount(data["tokens"]) ?? 0,
    maxTokens: asCount(data["max_tokens"]) ?? 0,
    citations: objects(data["passages"], citation).slice(0, MAX_CITATIONS),
  };
}

/** Returns what the numbers in an answer's text stand for. */
export function citationsOf(steps: readonly Step[]): ReadonlyMap<number, Citation> {
  const found = steps.filter(({ kind }) => kind === "file_search").flatMap((step) => fileSearchOf(step).citations);
  return new Map(found.map((each) => [each.number, each]));
}

function citation(value: Json): Citation | null {
  const [number, passage, page] = [asCount(value["number"]), asCount(value["passage"]), asCount(value["page"])];
  const [file, collection] = [asText(value["file_id"]), asText(value["vector_store_id"])];
  if (number === null || passage === null || file === null || collection === null) return null;
  const name = shortened(text(value["filename"]), MAX_NAME) || file;
  const headings = asList(value["heading_path"]).map(text).filter((each) => each !== "");
  const place = [...(page === null ? [] : [texts.page(count(page))]), ...(headings.length === 0 ? [] : [shortened(headings.join(" › "), MAX_NAME)])].join(" · ");
  const title = texts.citation(count(number), place === "" ? name : `${name}, ${place}`);
  return { number, name, place, title, href: href({ name: "documents", collection, file, passage }) };
}
