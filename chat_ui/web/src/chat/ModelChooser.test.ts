import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import { Models } from "../state/models.svelte";
import ModelChooser from "./ModelChooser.svelte";
import { listed } from "../state/models.fixture";

const LIST = [
  { id: "small", context: 4096, price: { input_nano: 150, cached_input_nano: 75, output_nano: 600 }, ready: true, tools: [], reads_images: false, searches: false },
  { id: "large", context: 8192, price: null, ready: false, tools: [], reads_images: false, searches: false },
];

it("opens on the selected model, and returns the focus when it closes", async () => {
  const user = userEvent.setup();
  vi.spyOn(api, "listModels").mockResolvedValue(listed(LIST));
  const models = new Models();
  await models.load();
  render(ModelChooser, { models, value: "small" });
  const button = screen.getByRole("button", { name: "Model: small" });
  await user.click(button);
  const small = screen.getByRole("radio", { name: /small/ });
  expect(document.activeElement).toBe(small);
  expect(small.parentElement?.textContent).toContain("reads up to 4,096 tokens · $0.15 in, $0.60 out per million tokens");
  await user.keyboard("{Escape}");
  expect([screen.queryByRole("radio"), document.activeElement]).toEqual([null, button]);
  await user.click(button);
  await user.click(screen.getByRole("radio", { name: /large/ }));
  expect(screen.queryByRole("radio")).toBeNull();
  expect([document.activeElement, button.getAttribute("aria-label")]).toEqual([button, "Model: large"]);
});

it("selects the model whose name is pressed with the mouse", async () => {
  const user = userEvent.setup();
  vi.spyOn(api, "listModels").mockResolvedValue(listed(LIST));
  const models = new Models();
  await models.load();
  render(ModelChooser, { models, value: "small" });
  const button = screen.getByRole("button", { name: "Model: small" });
  await user.click(button);
  await user.click(screen.getByText("large"));
  expect(button.getAttribute("aria-label")).toBe("Model: large");
});

it("closes when the focus leaves it, and says that no model is served", async () => {
  const user = userEvent.setup();
  vi.spyOn(api, "listModels").mockResolvedValueOnce(listed(LIST)).mockResolvedValueOnce(listed(LIST)).mockResolvedValue(listed([]));
  const models = new Models();
  await models.load();
  render(ModelChooser, { models, value: "" });
  await user.click(screen.getByRole("button"));
  await user.tab();
  expect(screen.queryByRole("radio")).toBeNull();
  await models.load();
  expect((await screen.findByRole("status")).textContent).toBe("No model is being served yet.");
});
