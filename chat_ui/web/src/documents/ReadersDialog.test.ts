import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/call";
import { ApiError, failureOf } from "../api/failure";
import { COLLECTION } from "./collection.fixture";
import ReadersDialog from "./ReadersDialog.svelte";

const BOB = { id: "user-bob", name: "Bob", email: "bob@example.org" };
const path = { collection_id: "vs_1" };
const onChanged = vi.fn();

it("shares with people by e-mail, and takes the right away", async () => {
  const call = vi.spyOn(api, "call").mockResolvedValue({ project: false, organisation: false, people: [] });
  render(ReadersDialog, { collection: COLLECTION, onChanged, onClose: () => undefined });
  const field = await screen.findByRole("textbox", { name: "E-mail address of a member" });
  call.mockRejectedValueOnce(new ApiError(failureOf("refused", "", null, "no_such_member")));
  await userEvent.type(field, "eve@example.org{Enter}");
  expect(await screen.findByText("No member of your organisation has this e-mail address.")).toBeTruthy();
  await userEvent.clear(field);
  call.mockResolvedValue({ project: false, organisation: false, people: [BOB] });
  await userEvent.type(field, "bob@example.org{Enter}");
  expect(call).toHaveBeenCalledWith("POST /collections/{collection_id}/readers", { path, body: { reader: "person", email: BOB.email } });
  await userEvent.click(await screen.findByRole("button", { name: "Take away the right of Bob" }));
  expect(call).toHaveBeenCalledWith("DELETE /collections/{collection_id}/readers/{reader}", { path: { ...path, reader: BOB.id } });
  await waitFor(() => expect(onChanged).toHaveBeenCalledTimes(2));
});

it("shares with the project and the organisation", async () => {
  const call = vi.spyOn(api, "call").mockResolvedValue({ project: true, organisation: false, people: [] });
  render(ReadersDialog, { collection: COLLECTION, onChanged, onClose: () => undefined });
  await userEvent.click(await screen.findByRole("checkbox", { name: "Everyone in the organisation" }));
  expect(call).toHaveBeenCalledWith("POST /collections/{collection_id}/readers", { path, body: { reader: "organisation", email: "" } });
  await userEvent.click(screen.getByRole("checkbox", { name: "Everyone in the project" }));
  expect(call).toHaveBeenCalledWith("DELETE /collections/{collection_id}/readers/{reader}", { path: { ...path, reader: "project" } });
});
