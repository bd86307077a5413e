import { afterEach, expect, it } from "vitest";
import { failureOf } from "../api/failure";
import { language } from "./messages/language.svelte";
import { serverMessage, errorText } from "./error_text";

afterEach(() => language.choose(null));

const password = failureOf("refused", "A password has 10 to 1024 characters.", null, "invalid_value", "password");
const unknown = failureOf("refused", "Too many cooks.", null, "invalid_value", "cooks");
const quota = failureOf("quota", "0.00 USD are left.", null, "insufficient_quota");

it("has texts in the person's language, and else shows the server's message", () => {
  expect([password, unknown].map(errorText)).toEqual(["A password has 10 to 1,024 characters.", "Too many cooks."]);
  language.choose("pl");
  expect([password, unknown].map(errorText)).toEqual(["Hasło ma od 10 do 1024 znaków.", "Serwer odpowiedział: Too many cooks."]);
});

it("adds the server's message only in the server's language", () => {
  expect(serverMessage(quota)).toBe("The server said: 0.00 USD are left.");
  language.choose("pl");
  expect(serverMessage(quota)).toBe("");
});
