import { fireEvent, render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { ADDRESS, ARTICLE, CONSENT_STEP, IMAGE, MATHEMATICS, MCP, PAGE, resulting, step, WEATHER } from "./steps.fixture";
import ToolCard from "./ToolCard.svelte";

it("shows a running tool, which can be stopped", async () => {
  const onStop = vi.fn();
  render(ToolCard, { step: step({ state: "running", data: { arguments: { place: "Gdańsk" } } }), onStop });
  expect(screen.getByRole("region", { name: "Weather · Gdańsk" }).getAttribute("aria-busy")).toBe("true");
  expect(screen.getByText("Looking up the weather…")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Stop" }));
  expect(onStop).toHaveBeenCalledOnce();
});

it("shows why a tool failed, and tries again", async () => {
  const onRetry = vi.fn();
  const failed = step({ state: "failed", data: { error: { code: "not_found", message: "There is no such place." } } });
  render(ToolCard, { step: failed, onRetry });
  expect(screen.getByText("There is no such place.")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(onRetry).toHaveBeenCalledOnce();
});

it("shows the weather with hours, days and its source", () => {
  render(ToolCard, { step: resulting("weather", WEATHER) });
  expect(screen.getByText("4 °C", { selector: ".temperature" })).toBeTruthy();
  expect(screen.getByText("feels like 1 °C · humidity 81 % · wind 20 km/h")).toBeTruthy();
  expect(screen.getByRole("slider", { name: /^Temperature and precipitation from 12:00 to 14:00: between 2 °C and 4 °C/ })).toBeTruthy();
  expect(screen.getByRole("row", { name: /Tue.*1 °C.*5 °C.*light rain, 2.5 mm/ })).toBeTruthy();
  expect(screen.getByRole("link", { name: "Open-Meteo" }).getAttribute("rel")).toContain("noopener");
  expect(screen.getByText(/CC BY 4.0/)).toBeTruthy();
});

it("shows an article with source and licence", () => {
  render(ToolCard, { step: resulting("wikipedia", ARTICLE, { topic: "mill" }) });
  expect(screen.getByText("A water wheel is a machine.").lang).toBe("en");
  expect(screen.getByRole("link", { name: "Water wheel" }).getAttribute("href")).toBe(ARTICLE.url);
  expect(screen.getByText(/CC BY-SA 4.0/)).toBeTruthy();
});

it("shows a formula and its plot with a gap", () => {
  const { container } = render(ToolCard, { step: resulting("math", MATHEMATICS, { expression: "1/x" }) });
  expect(container.querySelectorAll(".math")).toHaveLength(1);
  expect(screen.getByRole("slider", { name: /Plot of 1\/x from -2 to 2: values between -1 and 1/ })).toBeTruthy();
});

it.each([
  ["\\frac{1}{3}", "= \\frac{1}{3}"],
  ["x = 2,\\; x = 3", "x = 2,\\; x = 3"],
  ["\\approx 0.3", "\\approx 0.3"],
  ["x \\in \\mathbb{R}", "x \\in \\mathbb{R}"],
  ["\\infty", "= \\infty"],
  ["\\int x \\, dx", "= \\int x \\, dx"],
])("puts an equals sign before a value only: %s", (result_latex, shown) => {
  const { container } = render(ToolCard, { step: resulting("math", { ...MATHEMATICS, result_latex, plot: null }) });
  expect([...container.querySelectorAll(".math")].at(-1)?.textContent).toBe(shown);
});

it("shows a result in words, and a fraction's value", () => {
  render(ToolCard, { step: resulting("math", { ...MATHEMATICS, result_latex: "", result_text: "no solution", numeric: 1 / 3, plot: null }) });
  expect(screen.getByText("no solution")).toBeTruthy();
  expect(screen.getByText("≈ 0.333333")).toBeTruthy();
});

it("enlarges and downloads images, and tells when they are gone", async () => {
  const user = userEvent.setup();
  render(ToolCard, { step: resulting("image", IMAGE, { prompt: "Kot" }) });
  expect(screen.getByText("Drawn from: A cat")).toBeTruthy();
  const image = screen.getByRole("img", { name: "Image: Kot" });
  expect(image.getAttribute("src")).toBe(ADDRESS);
  expect(screen.getByRole("link", { name: "Download" }).getAttribute("download")).toBe("image-1.png");
  await user.click(screen.getByRole("button", { name: "Enlarge the image: Kot" }));
  expect(screen.getByRole("dialog", { name: "Kot" })).toBeTruthy();
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("dialog")).toBeNull();
  await fireEvent.error(image);
  expect(screen.getByText("The image is not available any more.")).toBeTruthy();
});

it("shows pages and results of other tools as text", () => {
  render(ToolCard, { step: resulting("web_page", PAGE, { url: PAGE.url }) });
  expect(screen.getByText(/^example.org · read /)).toBeTruthy();
  const mcp = { ...MCP, is_error: true, content: [...MCP.content, { type: "text", text: "<img src=x>" }] };
  const { container } = render(ToolCard, { step: resulting("mcp.shop.search", mcp) });
  expect(screen.getByText("search (shop)")).toBeTruthy();
  expect(screen.getByText(/Two hats\s+<img src=x>/)).toBeTruthy();
  expect(screen.getByText("It did not work.")).toBeTruthy();
  expect(container.querySelector("img")).toBeNull();
});

it("shows that a result was left out", () => {
  render(ToolCard, { step: step({ data: { arguments: {} } }) });
  expect(screen.getByText(/The result is not shown/)).toBeTruthy();
});

it("asks for consent instead of trying again, where the answer may be requested", async () => {
  const [onAllow, onRetry] = [vi.fn(), vi.fn()];
  const { rerender } = render(ToolCard, { step: CONSENT_STEP, onRetry, onAllow });
  expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Allow once" }));
  expect(onAllow).toHaveBeenLastCalledWith(expect.objectContaining({ tool: "search", server: "shop" }), false);
  await rerender({ step: CONSENT_STEP, onRetry: undefined, onAllow: undefined });
  expect(screen.queryByRole("button")).toBeNull();
});
