import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { texts } from "../ui/messages";
import EmptyConversation from "./EmptyConversation.svelte";

const shown = (): (string | null)[] => screen.getAllByRole("button").map((button) => button.textContent);

it("suggests a question for each tool that is known, and is used with the keyboard", async () => {
  const user = userEvent.setup();
  const onSuggest = vi.fn();
  const { rerender } = render(EmptyConversation, { tools: ["math", "mcp.shop.search", "image"], onSuggest });
  const { math, image } = texts.toolSuggestions;
  expect(shown()).toEqual([math, image, ...texts.suggestions.slice(0, 2)]);
  await user.tab();
  await user.tab();
  await user.keyboard("{Enter}");
  expect(onSuggest).toHaveBeenCalledExactlyOnceWith(image);
  await rerender({ tools: [] });
  expect(shown()).toEqual(texts.suggestions);
  await rerender({ tools: Object.keys(texts.toolSuggestions) });
  expect(shown()).toEqual(Object.values(texts.toolSuggestions));
});
