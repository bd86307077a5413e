import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import ChatPage from "./ChatPage.svelte";
import * as client from "../api/client";

beforeEach(() => {
  vi.spyOn(client, "listModels").mockResolvedValue(["tiny"]);
  history.replaceState(null, "", "/#key=hr_live_x");
});

it("takes the key from the address, answers, and forgets key and conversation", async () => {
  vi.spyOn(client, "streamChat").mockImplementation(async function* () {
    yield { type: "text", text: "Hello!" };
    yield { type: "done" };
  });
  render(ChatPage);
  await userEvent.type(await screen.findByLabelText("Write a message"), "Hi{Enter}");
  expect(await screen.findByText("Hello!")).toBeTruthy();
  expect(location.hash).toBe("");
  await userEvent.click(screen.getByRole("button", { name: "Forget the key" }));
  expect(screen.queryByText("Hello!")).toBeNull();
  expect(screen.getByLabelText("API key")).toBeTruthy();
});
