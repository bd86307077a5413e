import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/call";
import IdentitiesSection from "./IdentitiesSection.svelte";

const ALICE = { id: "identity-1", issuer: "https://sso.example", subject: "alice", connected_at: 1_700_000_000 };

it("disconnects an account of the provider after the password", async () => {
  const identities: object[] = [ALICE];
  const call = vi.spyOn(api, "call").mockImplementation((async (name: string) => {
    if (name === "GET /second-factor") return { enabled: false, recovery_codes_left: 0 };
    if (name === "GET /oidc/identities") return { identities: [...identities] };
    identities.pop();
    return undefined;
  }) as typeof api.call);
  render(IdentitiesSection, { label: "Acme" });
  await screen.findByText(/alice at https:\/\/sso\.example/);
  await userEvent.type(screen.getByLabelText("Present password"), "secret password");
  await userEvent.click(screen.getByRole("button", { name: "Disconnect" }));
  await vi.waitFor(() => expect(screen.queryByRole("button", { name: "Disconnect" })).toBeNull());
  expect(call).toHaveBeenCalledWith("DELETE /oidc/identities/{identity}", {
    path: { identity: "identity-1" },
    body: { password: "secret password", code: "" },
  });
});
