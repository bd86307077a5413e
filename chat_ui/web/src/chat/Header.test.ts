import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { Session } from "../state/session.svelte";
import Header from "./Header.svelte";

function setUp(...models: string[]) {
  const session = new Session();
  Object.assign(session, { status: "ready", models, model: models[0] ?? "" });
  const actions = { onNew: vi.fn(), onSettings: vi.fn(), onForget: vi.fn() };
  render(Header, { session, settingsOpen: false, ...actions });
  return { session, ...actions };
}

it("changes the model", async () => {
  const { session } = setUp("a", "<i>b</i>");
  await userEvent.selectOptions(screen.getByLabelText("Model"), "<i>b</i>");
  expect(session.model).toBe("<i>b</i>");
});

it("says that there is no model and looks again", async () => {
  const { session } = setUp();
  const refresh = vi.spyOn(session, "refresh").mockResolvedValue();
  await userEvent.click(screen.getByRole("button", { name: "Look again" }));
  expect(refresh).toHaveBeenCalledOnce();
});

it("names its buttons", async () => {
  const { onNew, onSettings, onForget } = setUp("a");
  for (const name of ["New conversation", "Settings", "Forget the key"]) {
    await userEvent.click(screen.getByRole("button", { name }));
  }
  for (const action of [onNew, onSettings, onForget]) expect(action).toHaveBeenCalledOnce();
});
