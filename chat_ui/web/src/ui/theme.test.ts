import { beforeEach, expect, it } from "vitest";
import { preferences } from "./preferences";
import { Theme } from "./theme.svelte";

const attribute = (): string | undefined => document.documentElement.dataset["theme"];

beforeEach(() => preferences.clear());

it("applies and stores a chosen theme, and returns to the system's", () => {
  const theme = new Theme();
  theme.choose("dark");
  expect([attribute(), preferences.get("theme"), new Theme().chosen]).toEqual(["dark", "dark", "dark"]);
  theme.choose("system");
  expect([attribute(), preferences.get("theme"), new Theme().chosen]).toEqual([undefined, null, "system"]);
});

it("takes an unknown stored value for the system's theme", () => {
  preferences.set("theme", "neon");
  const theme = new Theme();
  theme.apply();
  expect([theme.chosen, attribute()]).toEqual(["system", undefined]);
});
