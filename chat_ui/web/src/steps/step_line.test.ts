import { expect, it } from "vitest";
import { texts } from "../ui/messages";
import { announcementOf, problemOf, stepLine, toolTitle } from "./step_line";
import { resulting, step, WEATHER } from "./steps.fixture";

it("announces a running search", () => {
  expect(announcementOf([step({ kind: "search", name: "best_of_n", state: "running" })])).toBe(texts.searchRunning);
});

it("tells routes, rewrites and summaries in one line", () => {
  const route = (choice: string) => stepLine(step({ kind: "route", data: { choice, arguments: { place: "Gdańsk" } } }));
  expect(route("weather")).toBe("Looked up: weather · Gdańsk");
  expect(route("wikipedia")).toBe("Looked up: Wikipedia · Gdańsk");
  expect(route("mcp.shop.search")).toBe("Used: shop.search · Gdańsk");
  expect([route("none"), stepLine(step({ kind: "odd" })), stepLine(step({ kind: "rewrite", state: "failed" }))]).toEqual(["", "", ""]);
  expect(stepLine(step({ kind: "rewrite", data: { from: "And there?", to: "Weather in Gdańsk?" } }))).toBe("Understood as: Weather in Gdańsk?");
  const summary = (data: Record<string, unknown>) => stepLine(step({ kind: "summary", data }));
  expect(summary({ dropped: 1, kept: 4 })).toContain("did not read its 1 oldest message.");
  expect(summary({ dropped: 6, kept: 4, text: "S" })).toContain("a summary of its 6 oldest messages.");
  expect(summary({ dropped: 0, kept: 4 })).toBe("");
});

it("names tools with what they were called for", () => {
  expect(toolTitle(resulting("weather", WEATHER))).toBe("Weather · Gdańsk, Pomorskie, Polska");
  expect(toolTitle(step({ name: "wikipedia", data: { arguments: { topic: "Mills" } } }))).toBe("Wikipedia · Mills");
  expect(toolTitle(step({ name: "constructor" }))).toBe("constructor");
});

it("tells problems in the server's words, else in general ones", () => {
  const failed = (error: unknown) => problemOf(step({ state: "failed", data: { error } }));
  expect(failed({ code: "not_found", message: "There is no such place." })).toBe("There is no such place.");
  expect(failed({ code: "stopped", message: "x" })).toBe("Stopped before it was done.");
  expect(failed("x")).toBe("It did not work.");
});

it("announces a running tool, and a failed one", () => {
  const running = step({ number: 1, state: "running" });
  expect(announcementOf([step({ kind: "route" }), running])).toBe("Looking up the weather…");
  expect(announcementOf([step({ number: 1, name: "mcp.shop.search", state: "running" })])).toBe("Using shop.search…");
  expect(announcementOf([step({ state: "failed", data: { error: { message: "No." } } })])).toBe("No.");
  expect(announcementOf([step()])).toBe("");
});
