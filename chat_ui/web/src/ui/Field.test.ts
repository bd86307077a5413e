import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import Field from "./Field.svelte";

it("connects hint and error with the input", () => {
  render(Field, { label: "Name", value: "x", hint: "Short.", error: "Taken." });
  const input = screen.getByLabelText("Name");
  const described = (input.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent);
  expect([described, input.getAttribute("aria-invalid")]).toEqual([["Short.", "Taken."], "true"]);
});

it("replaces the browser's message by the page's until the input changes", async () => {
  const user = userEvent.setup();
  render(Field, { label: "Name", value: "", required: true });
  const input = screen.getByLabelText<HTMLInputElement>("Name");
  expect(input.checkValidity()).toBe(false);
  expect(input.validationMessage).toBe("Please fill this in.");
  await user.type(input, "x");
  expect(input.checkValidity()).toBe(true);
});
