import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi, type MockInstance } from "vitest";
import * as api from "../api/call";
import { ApiError, failureOf } from "../api/failure";
import SignInPage from "./SignInPage.svelte";

let call: MockInstance<typeof api.call>;

beforeEach(() => {
  call = vi.spyOn(api, "call").mockReset();
});
afterEach(() => {
  vi.unstubAllGlobals();
  history.replaceState(null, "", "/");
});

it("leads to the provider with the page that was asked for", async () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { ...location, pathname: "/usage", hash: "", assign });
  call.mockResolvedValueOnce({ label: "Acme", password_sign_in: true }).mockResolvedValueOnce({ url: "https://sso.example/auth" });
  render(SignInPage);
  await userEvent.click(await screen.findByRole("button", { name: "Sign in with Acme" }));
  expect(call).toHaveBeenLastCalledWith("POST /oidc/sign-in", { body: { return_to: "/usage" } });
  expect(assign).toHaveBeenCalledWith("https://sso.example/auth");
});

it("shows the error of a sign-in at the provider by its code, and no other text of the URL", async () => {
  for (const [code, text] of [
    ["no_group", /None of your groups/],
    ["<b>evil</b>", /Something went wrong|server/i],
    ["constructor", /Something went wrong|server/i],
  ] as const) {
    history.replaceState(null, "", `/sign-in#problem=${code}`);
    call.mockResolvedValueOnce({ label: "Acme", password_sign_in: false });
    const { unmount } = render(SignInPage);
    await screen.findByRole("button", { name: "Sign in with Acme" });
    const [alert] = screen.getAllByRole("alert");
    expect(alert?.textContent).toMatch(text);
    expect(location.hash).toBe("");
    screen.getByText("Owners may sign in with a password:");
    unmount();
  }
});

it("keeps the password form if the provider's name can't be read", async () => {
  call.mockRejectedValueOnce(new ApiError(failureOf("network")));
  render(SignInPage);
  await vi.waitFor(() => expect(call).toHaveBeenCalled());
  expect(screen.getByRole("button", { name: "Sign in" })).toHaveProperty("disabled", false);
});
