import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import type { SearchOffer } from "../api/chat_types";
import { GRADER, JUDGE, NO_VERIFIER, THINKER } from "../state/models.fixture";
import { Settings } from "../state/settings.svelte";
import ThinkLonger from "./ThinkLonger.svelte";

const OFFER: SearchOffer = { ...NO_VERIFIER, verifiers: [JUDGE, { ...JUDGE, id: "other", ready: false }] };

function shown(offer = OFFER): Settings {
  const settings = new Settings();
  render(ThinkLonger, { settings, model: THINKER, offer });
  return settings;
}

it("is off at first, and offers a vote without a verifier", async () => {
  const settings = shown(NO_VERIFIER);
  expect(screen.getAllByRole("radio").map((each) => (each as HTMLInputElement).checked)).toEqual([true, false]);
  expect(screen.queryByRole("combobox")).toBeNull();
  await userEvent.click(screen.getByRole("radio", { name: /^Vote/, description: /most frequent number/ }));
  expect(settings.search).toEqual({ method: "self_consistency", n: 8, verifier: "" });
  expect(screen.getByText(/At most 32,768 tokens beside the answer · up to \$0\.013/)).toBeTruthy();
  await userEvent.click(screen.getByRole("radio", { name: /^Off/ }));
  expect(settings.search).toBeNull();
});

it("takes the number of answers and the verifier", async () => {
  const settings = shown();
  await userEvent.click(screen.getByRole("radio", { name: /^Step by step/ }));
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "Answers to try" }), "2");
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "Verifier" }), "other");
  expect(settings.search).toEqual({ method: "beam_search", n: 2, verifier: "other" });
  expect(screen.getByText(/the verifier reads at most 131,072/)).toBeTruthy();
});

it("offers chat models as verifiers, but not the model itself", async () => {
  const settings = shown({ ...NO_VERIFIER, verifiers: [GRADER, { ...GRADER, id: THINKER.id, own_names: [THINKER.id] }] });
  await userEvent.click(screen.getByRole("radio", { name: /^Best answer/ }));
  expect(settings.search).toEqual({ method: "best_of_n", n: 8, verifier: "grader" });
  expect(screen.queryByRole("combobox", { name: "Verifier" })).toBeNull();
  settings.search = { method: "best_of_n", n: 8, verifier: THINKER.id };
  const verifiers = await screen.findByRole("combobox", { name: "Verifier" });
  expect([...verifiers.querySelectorAll("option")].map((each) => each.value)).toEqual(["grader", THINKER.id]);
});

it("warns that answers at the temperature 0 are equal", async () => {
  const settings = shown();
  settings.temperature = 0;
  await userEvent.click(screen.getByRole("radio", { name: /^Best answer/ }));
  expect(screen.getByRole("alert").textContent).toContain("all answers are equal");
});
