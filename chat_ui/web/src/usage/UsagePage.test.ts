import { render, screen, within, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import * as api from "../api/call";
import { ApiError, failureOf } from "../api/failure";
import * as drawing from "./bar_chart";
import UsagePage from "./UsagePage.svelte";

const today = new Date().toISOString().slice(0, 10);
const USAGE = {
  by_day: [
    { day: today, model: "<b>tiny</b>", requests: 2, input_tokens: 1200, cached_tokens: 0, output_tokens: 34, cost_nano: 1_234_000 },
  ],
  balance: {
    available_nano: 5_000_000_000,
    held_nano: 0,
    month_used_nano: 1_234_000,
    budgets: [{ name: "organisation", limit_nano: 2_000_000_000, used_nano: 1_234_000 }],
  },
  limits: [
    { subject: "you", requests_per_minute: 60, tokens_per_minute: null, requests_per_day: null, concurrent_requests: 4 },
    { subject: "organisation", requests_per_minute: 900, tokens_per_minute: null, requests_per_day: null, concurrent_requests: null },
  ],
  storage: { used_bytes: 1.5 * 1_048_576, limit_bytes: 1024 * 1_048_576 },
};

it("shows balance, budget, limits, and usage as chart and table", async () => {
  const call = vi.spyOn(api, "call").mockResolvedValue(USAGE);
  const draw = vi.spyOn(drawing, "drawBarChart").mockReturnValue(() => undefined);
  render(UsagePage);
  expect(await screen.findByText("$5.00")).toBeTruthy();
  expect(screen.getByRole("meter", { name: /organisation’s budget/ })).toBeTruthy();
  expect(screen.getByRole("row", { name: /^The organisation 900 / })).toBeTruthy();
  expect(screen.getByRole("meter", { name: "Your conversations with their files" })).toBeTruthy();
  expect(screen.getByText("1.5 MiB of 1,024 MiB")).toBeTruthy();
  const table = screen.getByRole("table", { name: "Usage by day and model", hidden: true });
  expect(within(table).getAllByRole("cell", { hidden: true }).map((cell) => cell.textContent)).toContain("$0.0012");
  expect(within(table).getByText("<b>tiny</b>")).toBeTruthy();
  await waitFor(() => expect(draw).toHaveBeenCalled());
  expect(draw.mock.lastCall?.[1].series[0]?.values.at(-1)).toBe(1_234_000);
  expect(draw.mock.lastCall?.[1].labels).toHaveLength(30);
  await userEvent.click(screen.getByRole("tab", { name: "Tokens" }));
  await waitFor(() => expect(draw.mock.lastCall?.[1].series[0]?.values.at(-1)).toBe(1234));
  await userEvent.selectOptions(screen.getByLabelText("Period"), "7");
  await waitFor(() => expect(call).toHaveBeenLastCalledWith("GET /usage", { query: { days: 7 } }));
});

it("shows a loading error, and retries", async () => {
  const call = vi.spyOn(api, "call").mockRejectedValueOnce(new ApiError(failureOf("busy", "", null, "unavailable")));
  render(UsagePage);
  expect((await screen.findByRole("alert")).textContent).toContain("The service is busy");
  call.mockResolvedValueOnce({ ...USAGE, by_day: [] });
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("Nothing was used in this time")).toBeTruthy();
});
