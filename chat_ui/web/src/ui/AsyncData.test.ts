import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { createRawSnippet } from "svelte";
import { expect, it, vi } from "vitest";
import { ApiError, failureOf } from "../api/failure";
import AsyncData from "./AsyncData.svelte";

const children = createRawSnippet<[string]>((value) => ({ render: () => `<p>${value()}</p>` }));

it("shows a spinner, then an error with a retry button, then the data", async () => {
  const user = userEvent.setup();
  const load = vi.fn<() => Promise<string>>().mockRejectedValueOnce(new ApiError(failureOf("network"))).mockResolvedValueOnce("Loaded.");
  render(AsyncData<string>, { load, children });
  expect(screen.getByRole("status")).toBeTruthy();
  expect((await screen.findByRole("alert")).textContent).toContain("The server cannot be reached.");
  await user.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("Loaded.")).toBeTruthy();
  expect(load).toHaveBeenCalledTimes(2);
});

it("shows the newest data even if an older load ends later", async () => {
  let endFirst: (value: string) => void = () => undefined;
  const load = vi.fn<() => Promise<string>>();
  load.mockReturnValueOnce(new Promise((resolve) => (endFirst = resolve))).mockResolvedValueOnce("New.");
  const { component } = render(AsyncData<string>, { load, children });
  await component.reload();
  expect(await screen.findByText("New.")).toBeTruthy();
  endFirst("Old.");
  await Promise.resolve();
  expect(screen.queryByText("Old.")).toBeNull();
});
