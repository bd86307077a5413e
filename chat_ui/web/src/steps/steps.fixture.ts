/** Steps of an assistant's answer for component tests. */
import type { Step } from "../api/chat_types";

const SOURCE = { name: "Open-Meteo", url: "https://open-meteo.com/", licence: "CC BY 4.0" };

export const WEATHER = {
  type: "weather",
  place: { name: "Gdańsk", region: "Pomorskie", country: "Polska" },
  now: { at: "2026-11-24T15:00", temperature: 4.4, feels_like: 1, humidity: 81, wind: 20.2, code: 61, description: "light rain" },
  hours: [12, 13, 14].map((hour) => ({ at: `2026-11-24T${hour}:00`, temperature: hour - 10, precipitation: hour - 12 })),
  days: [
    { date: "2026-11-24", min: 1, max: 5, code: 61, description: "light rain", precipitation: 2.5 },
    { date: "2026-11-25", min: -2, max: 3, code: 3, description: "overcast", precipitation: 0 },
  ],
  units: "metric",
  source: SOURCE,
};
export const ARTICLE = {
  type: "article",
  title: "Water wheel",
  extract: "A water wheel is a machine.",
  url: "https://en.wikipedia.org/wiki/Water_wheel",
  language: "en",
  source: { name: "Wikipedia", url: "https://en.wikipedia.org/wiki/Water_wheel", licence: "CC BY-SA 4.0" },
};
export const PLOT = { variable: "x", x: [-2, -1, 0, 1, 2], y: [-0.5, -1, null, 1, 0.5], x_label: "x", y_label: "1/x" };
export const MATHEMATICS = {
  type: "mathematics",
  operation: "plot",
  input_latex: "y = \\frac{1}{x}",
  result_latex: "y = \\frac{1}{x}",
  result_text: "y = 1/x",
  plot: PLOT,
};
export const ADDRESS = "/v1/blobs/blob_abc?expires=1&signature=ab";
export const IMAGE = { type: "image", prompt: "Kot", prompt_sent: "A cat", translated: true, size: "64x64", images: [{ blob: "blob_abc", url: ADDRESS }] };
export const PAGE = { type: "page", title: "Example", url: "https://example.org/a", text: "Words.", fetched_at: "2026-11-24T15:00:00Z" };
export const MCP = { type: "mcp", server: "shop", tool: "search", content: [{ type: "text", text: "Two hats" }], is_error: false };

export const FILE_SEARCH = {
  query: "When is the rent due?",
  found: 12,
  quoted: 2,
  tokens: 900,
  max_tokens: 2048,
  passages: [
    { number: 1, file_id: "file-1", filename: "lease.pdf", vector_store_id: "vs_1", passage: 7, page: 3, heading_path: ["Lease", "Rent"], start: 100, end: 200 },
    { number: 2, file_id: "file-2", filename: "notes.md", vector_store_id: "vs_1", passage: 0, page: null, heading_path: [], start: 0, end: 20 },
  ],
};

/** Data of a search's last step: four paths, of which one was dropped. */
export const SEARCH = {
  step: 2,
  paths: [
    { path: 1, parent: 0, tokens: 30, ended: "stop", alive: false, score: 0.25, result: "41", text: "It is 41." },
    { path: 2, parent: 0, tokens: 12, ended: null, alive: false, score: 0.1 },
    { path: 3, parent: 0, tokens: 40, ended: "stop", alive: false, score: 0.87512, result: "42", text: "<b>It</b> is **42**." },
    { path: 4, parent: 0, tokens: 50, ended: "length", alive: false },
  ],
  generated: 1132,
  scored: 2000,
  chosen: 3,
  votes: [["41", 0.25], ["42", 0.875], [null, 0]],
};

export function step(changes: Partial<Step> = {}): Step {
  return { number: 0, kind: "tool", name: "weather", state: "done", data: {}, ...changes };
}

/** Returns a tool's ended step with this result. */
export function resulting(name: string, result: unknown, subject: Record<string, unknown> = {}): Step {
  return step({ name, data: { arguments: subject, result } });
}

const DIGEST = "0a".repeat(32);
/** Consents to the tool `mcp.shop.search`: as its server describes it, and to one call. */
export const ALLOW = `mcp.shop.search@${DIGEST}`;
export const ALLOW_ONCE = `mcp.shop.search@${"1b".repeat(32)}`;
export const CONSENT_STEP: Step = step({
  name: "mcp.shop.search",
  state: "failed",
  data: {
    arguments: { query: "tea", limit: 3 },
    error: {
      code: "consent",
      message: "The tool “search” of the server “shop” is called only if you allow it.",
      server: "shop",
      tool: "search",
      allow: ALLOW,
      allow_once: ALLOW_ONCE,
    },
  },
});
