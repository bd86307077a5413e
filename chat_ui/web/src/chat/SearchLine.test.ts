import { render } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { JUDGE, NO_VERIFIER, THINKER } from "../state/models.fixture";
import SearchLine from "./SearchLine.svelte";

it.each([
  ["judge", ["Think longer: Best answer, 4 answers", "up to 99,504 tokens more", "up to $0.02"]],
  ["gone", ["Think longer: Best answer, 4 answers", "up to 99,504 tokens more"]],
])("tells the method, the number of answers and the greatest cost: verifier %s", (verifier, parts) => {
  const search = { method: "best_of_n" as const, n: 4, verifier };
  const { container } = render(SearchLine, { search, model: THINKER, offer: { ...NO_VERIFIER, verifiers: [JUDGE] }, maxTokens: 100 });
  expect([...container.querySelectorAll("span")].map((each) => each.textContent)).toEqual(parts);
});
