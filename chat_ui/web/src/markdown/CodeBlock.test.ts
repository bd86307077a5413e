import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import CodeBlock from "./CodeBlock.svelte";

const CODE = "<img src=x onerror=alert(1)>";

it("shows language and code as text and copies the code", async () => {
  const user = userEvent.setup();
  render(CodeBlock, { language: '"><img src=x>', code: CODE, open: true });
  expect(document.querySelector("img")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Copy" }));
  expect(await navigator.clipboard.readText()).toBe(CODE);
  expect(screen.getByRole("button", { name: "Copied" })).toBeTruthy();
});

it("reports that it cannot copy", async () => {
  const user = userEvent.setup();
  vi.spyOn(navigator.clipboard, "writeText").mockRejectedValue(new DOMException("denied", "NotAllowedError"));
  render(CodeBlock, { language: "", code: CODE, open: true });
  await user.click(screen.getByRole("button", { name: "Copy" }));
  expect(screen.getByRole("button", { name: "Cannot copy" })).toBeTruthy();
});

it("highlights code only once it is complete", async () => {
  const { container, rerender } = render(CodeBlock, { language: "Python", code: "x = 1", open: true });
  expect(container.querySelector(".piece")?.textContent).toBe("x = 1");
  await rerender({ open: false });
  await vi.waitFor(() => expect(container.querySelector(".hljs-number")?.textContent).toBe("1"), { timeout: 20_000 });
  expect(container.querySelector("code")?.textContent).toBe("x = 1");
}, 30_000);

it("shows long code completely, in chunks of lines", () => {
  const code = Array.from({ length: 100 }, (_, line) => `line ${line}`).join("\n");
  const { container } = render(CodeBlock, { language: "", code, open: true });
  const pieces = [...container.querySelectorAll(".piece")].map((piece) => piece.textContent);
  expect(pieces.length).toBeGreaterThan(1);
  expect(pieces.join("\n")).toBe(code);
});
