import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import CodeBlock from "./CodeBlock.svelte";

const CODE = "<img src=x onerror=alert(1)>";

it("shows language and code as text and copies the code", async () => {
  const user = userEvent.setup();
  render(CodeBlock, { language: '"><img src=x>', code: CODE });
  expect(document.querySelector("img")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Copy" }));
  expect(await navigator.clipboard.readText()).toBe(CODE);
  expect(screen.getByRole("button", { name: "Copied" })).toBeTruthy();
});

it("says when it cannot copy", async () => {
  const user = userEvent.setup();
  vi.spyOn(navigator.clipboard, "writeText").mockRejectedValue(new DOMException("denied", "NotAllowedError"));
  render(CodeBlock, { language: "", code: CODE });
  await user.click(screen.getByRole("button", { name: "Copy" }));
  expect(screen.getByRole("button", { name: "Cannot copy" })).toBeTruthy();
});
