import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { failureOf } from "../api/failure";
import { Session } from "../state/session.svelte";
import KeyForm from "./KeyForm.svelte";

it("connects with the trimmed key and forgets what was typed", async () => {
  const session = new Session();
  const connect = vi.spyOn(session, "connect").mockResolvedValue();
  render(KeyForm, { session });
  const field = screen.getByLabelText<HTMLInputElement>("API key");
  await userEvent.type(field, " hr_live_x {Enter}");
  expect(connect).toHaveBeenCalledExactlyOnceWith("hr_live_x");
  expect(field.value).toBe("");
  expect(field.type).toBe("password");
});

it("says why a key did not work", () => {
  const session = new Session();
  session.failure = failureOf("unauthorized");
  render(KeyForm, { session });
  expect(screen.getByRole("alert").textContent).toContain("not valid");
});
