import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import ConsentRequest from "./ConsentRequest.svelte";

const CONSENT = { server: "shop", tool: "search", arguments: [["query", "<b>tea</b>"]] as const, allow: "a", allowOnce: "b" };

it("shows what would be sent, and asks for one call or for the conversation", async () => {
  const onAllow = vi.fn();
  render(ConsentRequest, { consent: CONSENT, onAllow });
  expect(screen.getByText("search of the server shop would get:")).toBeTruthy();
  expect(screen.getByText("query")).toBeTruthy();
  expect(screen.getByText("<b>tea</b>")).toBeTruthy();
  const once = screen.getByRole("button", { name: "Allow once", description: /search of the server shop would get/ });
  once.focus();
  await userEvent.keyboard("{Enter}");
  expect(onAllow).toHaveBeenLastCalledWith(false);
  await userEvent.click(screen.getByRole("button", { name: "Allow in this conversation" }));
  expect(onAllow).toHaveBeenLastCalledWith(true);
});

it("says that a tool without arguments gets nothing", () => {
  render(ConsentRequest, { consent: { ...CONSENT, arguments: [] }, onAllow: vi.fn() });
  expect(screen.getByText("nothing but the call.")).toBeTruthy();
});
