import { expect, it } from "vitest";
import { ADMIN_SECTIONS, DOCUMENTS, href, parse, type Route } from "./routes";

const ROUTES: Route[] = [
  { name: "chat", conversation: null },
  { name: "chat", conversation: "conv-1/2 ä" },
  { name: "shared", token: "t" },
  { name: "sign-in" },
  { name: "sign-up" },
  { name: "invitation", token: "a_b-c" },
  { name: "start", token: "a_b-c" },
  { name: "reset", token: "a_b-c" },
  { name: "forgot-password" },
  { name: "account" },
  { name: "usage" },
  { name: "batches" },
  DOCUMENTS,
  { ...DOCUMENTS, collection: "vs_1" },
  { ...DOCUMENTS, collection: "vs_1", file: "file-ä/2" },
  { ...DOCUMENTS, collection: "vs_1", file: "file-1", passage: 12 },
  ...ADMIN_SECTIONS.map((section): Route => ({ name: "admin", section })),
];

it.each(ROUTES)("parses the URL of $name", (route) => {
  const url = new URL(href(route), "http://x");
  expect(parse(url.pathname, url.hash)).toEqual(route);
});

it.each(["/nothing", "/c", "/c/a/b", "/admin/secrets", "/account/x", "/index.html", "/documents/a/b/c", "/documents/a/b/1/d"])("%s is unknown", (path) => {
  expect(parse(path, "")).toEqual({ name: "unknown" });
});

it("starts administration with people, and accepts a broken escape", () => {
  expect(parse("/admin", "")).toEqual({ name: "admin", section: "people" });
  expect(parse("/c/%E0%A4%A", "")).toEqual({ name: "chat", conversation: "%E0%A4%A" });
});
