import { expect, it } from "vitest";
import { Parameters } from "./parameters.svelte";

const HELLO = [{ role: "user", content: "hi" }] as const;

it("sends nothing that was not set", () => {
  expect(new Parameters().toRequest("m", HELLO)).toEqual({ model: "m", messages: HELLO });
});

it("sends what was set, zero too", () => {
  const parameters = new Parameters();
  Object.assign(parameters, { system: "Be brief.", temperature: 0, topP: 0.9, maxTokens: 7 });
  expect(parameters.toRequest("m", HELLO)).toEqual({
    model: "m",
    messages: [{ role: "system", content: "Be brief." }, ...HELLO],
    temperature: 0,
    top_p: 0.9,
    max_completion_tokens: 7,
  });
});
