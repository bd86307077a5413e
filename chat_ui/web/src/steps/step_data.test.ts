import { expect, it } from "vitest";
import { consentOf, ownImage, resultOf, safeLink, subjectOf, summaryOf } from "./step_data";
import { ADDRESS, ALLOW, ALLOW_ONCE, ARTICLE, CONSENT_STEP, IMAGE, MATHEMATICS, MCP, PAGE, PLOT, resulting, step, WEATHER } from "./steps.fixture";

it("decodes every type of result", () => {
  expect(resultOf(resulting("weather", WEATHER))).toMatchObject({ place: "Gdańsk, Pomorskie, Polska", now: { feelsLike: 1 } });
  expect(resultOf(resulting("wikipedia", ARTICLE))).toMatchObject({ title: "Water wheel", source: { licence: "CC BY-SA 4.0" } });
  expect(resultOf(resulting("math", MATHEMATICS))).toMatchObject({ plot: { y: PLOT.y }, numeric: null });
  expect(resultOf(resulting("image", IMAGE))).toMatchObject({ drawnFrom: "A cat", urls: [ADDRESS] });
  expect(resultOf(resulting("web_page", PAGE))).toMatchObject({ fetchedAt: Date.UTC(2026, 10, 24, 15) / 1000 });
  expect(resultOf(resulting("mcp.shop.search", MCP))).toMatchObject({ text: "Two hats", isError: false });
});

it.each([
  [undefined],
  ["text"],
  [{ type: "constructor" }],
  [{ type: "weather", place: "x" }],
  [{ type: "weather", now: { temperature: "4" } }],
])("has no result of an unknown form: %o", (result) => {
  expect(resultOf(resulting("weather", result))).toBeNull();
});

it("leaves out what is invalid within a result", () => {
  const odd = { ...WEATHER, hours: [1, { at: "soon", temperature: 1 }], days: "x", source: { name: "X", url: "javascript:1" } };
  expect(resultOf(resulting("weather", odd))).toMatchObject({ hours: [], days: [], source: { url: null } });
  const plots = [{ ...PLOT, x: [1] }, { ...PLOT, x: ["1", 2, 3, 4, 5] }, { ...PLOT, y: [null, null, null, null, null] }];
  for (const plot of plots) expect(resultOf(resulting("math", { ...MATHEMATICS, plot }))).toMatchObject({ plot: null });
});

it("has each hour and day of a forecast once", () => {
  const [hours, days] = [["T01:00", "T06:00", "T01:00", "T06:00:30"], ["01", "02", "01"]];
  const forecast = {
    ...WEATHER,
    hours: hours.map((at, temperature) => ({ at: `2026-11-26${at}`, temperature })),
    days: days.map((each, max) => ({ date: `2026-11-${each}`, min: 0, max })),
  };
  const found = resultOf(resulting("weather", forecast));
  expect(found).toMatchObject({ hours: [{ temperature: 0 }, { temperature: 1 }], days: [{ date: "2026-11-01", max: 0 }, { max: 1 }] });
  if (found?.type === "weather") expect([found.hours.length, found.days.length]).toEqual([2, 2]);
});

it("passes links of http only, and images of this server only", () => {
  expect(["https://a.example/", "javascript:alert(1)", "data:text/html,x", "/a", 7].map(safeLink)).toEqual(["https://a.example/", null, null, null, null]);
  const foreign = ["https://evil.example/v1/blobs/a", "//evil.example/v1/blobs/a", "/v1/blobs/../models", "/v1/blobs/a?x=/../", "/api/me", null];
  expect(foreign.map(ownImage)).toEqual(foreign.map(() => null));
  expect(ownImage(ADDRESS)).toBe(ADDRESS);
});

it("says what a tool was called for", () => {
  expect(subjectOf({ arguments: { days: 3, place: " Gdańsk\nWrzeszcz" } })).toBe("Gdańsk Wrzeszcz");
  expect(subjectOf({ arguments: { operation: "solve" } })).toBe("");
  expect(subjectOf({})).toBe("");
  expect(subjectOf({ arguments: { topic: "x".repeat(500) } })).toHaveLength(121);
  expect(summaryOf(step({ kind: "summary", data: { dropped: -1 } }))).toEqual({ dropped: 0, text: "" });
});

it("reads what consent a step asks for", () => {
  const values = [["query", "tea"], ["limit", "3"]];
  expect(consentOf(CONSENT_STEP)).toEqual({ server: "shop", tool: "search", arguments: values, allow: ALLOW, allowOnce: ALLOW_ONCE });
});

it.each([
  ["another tool", { allow: ALLOW.replace("search", "delete") }],
  ["no fingerprint", { allow: "mcp.shop.search@" }],
  ["no consent to one call", { allow_once: 7 }],
  ["another error", { code: "unavailable" }],
])("reads no consent of a wrong form: %s", (_, changes) => {
  const error = { ...(CONSENT_STEP.data["error"] as object), ...changes };
  expect(consentOf({ ...CONSENT_STEP, data: { ...CONSENT_STEP.data, error } })).toBeNull();
});
