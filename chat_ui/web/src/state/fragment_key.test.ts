import { expect, it } from "vitest";
import { takeKeyFromAddress } from "./fragment_key";

it("takes the key once and removes it from the address", () => {
  history.replaceState(null, "", "/chat/?a=1#key=hr_live_abc_-9");
  expect(takeKeyFromAddress(location, history)).toBe("hr_live_abc_-9");
  expect(location.href).not.toContain("hr_live");
  expect(location.pathname + location.search).toBe("/chat/?a=1");
  expect(takeKeyFromAddress(location, history)).toBeNull();
});

it("leaves another fragment alone, and removes an empty key", () => {
  history.replaceState(null, "", "/#message");
  expect(takeKeyFromAddress(location, history)).toBeNull();
  expect(location.hash).toBe("#message");
  history.replaceState(null, "", "/#key=");
  expect(takeKeyFromAddress(location, history)).toBeNull();
  expect(location.hash).toBe("");
});
