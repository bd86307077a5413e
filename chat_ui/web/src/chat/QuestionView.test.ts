import { render, screen } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { chatMessage } from "./messages.fixture";
import QuestionView from "./QuestionView.svelte";

it("shows the images of a question, which can be enlarged and downloaded", async () => {
  const images = [{ name: "cat.png", size: 3, url: "/v1/blobs/a" }];
  render(QuestionView, { message: chatMessage({ role: "user", text: "What is this?", images }) });
  expect(screen.getByRole("img", { name: "Image: cat.png" }).getAttribute("src")).toBe("/v1/blobs/a");
  await userEvent.setup().click(screen.getByRole("button", { name: "Enlarge the image: cat.png" }));
  expect(screen.getByRole("heading", { name: "cat.png" })).toBeTruthy();
  expect(screen.getByRole("link", { name: "Download" }).getAttribute("download")).toBe("cat.png");
});
