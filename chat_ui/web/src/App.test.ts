import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi, type MockInstance } from "vitest";
import * as api from "./api/call";
import { ApiError, failureOf } from "./api/failure";
import App from "./App.svelte";
import { router } from "./router/router.svelte";
import { ADA as ME } from "./session/example_user";

let call: MockInstance<typeof api.call>;

beforeEach(() => {
  call = vi.spyOn(api, "call").mockReset();
  document.cookie = "headrace-csrf=; max-age=0";
  router.go({ name: "account" });
});

it("requires sign-in, shows its errors, and then shows the requested page", async () => {
  const user = userEvent.setup();
  document.cookie = "headrace-csrf=token";
  call.mockRejectedValueOnce(new ApiError(failureOf("unauthorized", "", null, "not_signed_in")));
  render(App);
  await user.type(await screen.findByLabelText("E-mail address"), "ada@example.org");
  await user.type(screen.getByLabelText("Password"), "wrong");
  call.mockRejectedValueOnce(new ApiError(failureOf("unauthorized", "no", null, "invalid_credentials")));
  await user.click(screen.getByRole("button", { name: "Sign in" }));
  expect(await screen.findByText("The e-mail address or the password is wrong.")).toBeTruthy();
  await user.type(screen.getByLabelText("Password"), "correct horse");
  call.mockResolvedValueOnce(ME);
  await user.click(screen.getByRole("button", { name: "Sign in" }));
  expect(await screen.findByRole("heading", { name: "Account" })).toBeTruthy();
  expect(screen.getByRole("link", { name: "Administration" })).toBeTruthy();
});

it("uses the token of a start link without asking who is signed in", async () => {
  router.go({ name: "start", token: "t-1" });
  call.mockRejectedValueOnce(new ApiError(failureOf("refused")));
  render(App);
  expect(await screen.findByRole("alert")).toBeTruthy();
  expect(call.mock.calls).toEqual([["POST /start", { body: { invitation: "t-1" } }]]);
});

it("accepts an invitation from the URL", async () => {
  const user = userEvent.setup();
  router.go({ name: "invitation", token: "t-1" });
  const invitation = { organisation: "Engines", role: "member", email: null, expires_at: 1 } as const;
  call.mockImplementation(async (name) => (name === "POST /sign-up" ? ME : invitation));
  render(App);
  await user.type(await screen.findByLabelText("Your name"), "Ada");
  await user.type(screen.getByLabelText("E-mail address"), "ada@example.org");
  await user.type(screen.getByLabelText("Password"), "correct horse");
  await user.click(screen.getByRole("button", { name: "Sign up" }));
  await waitFor(() => expect(location.hash).toBe(""));
  const body = { email: "ada@example.org", password: "correct horse", name: "Ada", invitation: "t-1" };
  expect(call).toHaveBeenCalledWith("POST /sign-up", { body });
});
