import { beforeEach, expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import { ApiError, failureOf } from "../api/failure";
import { isImage, MAX_IMAGE_BYTES, MAX_IMAGES, uploadImages } from "./upload_images";

function file(name: string, type = "image/png", size = 3): File {
  return Object.defineProperty(new File(["abc"], name, { type }), "size", { value: size });
}

let made = 0;
beforeEach(() => {
  vi.restoreAllMocks();
  vi.spyOn(api, "uploadImage").mockImplementation(() => Promise.resolve({ blob: `blob_${++made}`, url: `/v1/blobs/${made}` }));
});

it("takes SVG and text files for no images", () => {
  expect([file("a.png"), file("a.bmp", "image/bmp"), file("a.svg", "image/svg+xml"), file("a", "text/plain")].map(isImage)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

it("uploads images with their names, and reports those of other types", async () => {
  const { images, problems } = await uploadImages([], [file("cat.png"), file("old.bmp", "image/bmp"), file("", "image/webp")]);
  expect(images.map(({ name, size }) => [name, size])).toEqual([
    ["cat.png", 3],
    ["image", 3],
  ]);
  expect(problems).toEqual(["old.bmp is not a PNG, JPEG, WebP or GIF image."]);
});

it("keeps the limits of a message before anything is sent", async () => {
  const large = await uploadImages([], [file("a", "image/png", MAX_IMAGE_BYTES), file("b")]);
  expect([large.images.map(({ name }) => name), large.problems]).toEqual([["a"], ["The images are larger than 8 MiB together."]]);
  const many = await uploadImages([], Array.from({ length: MAX_IMAGES + 1 }, () => file("a")));
  expect([many.images.length, many.problems]).toEqual([MAX_IMAGES, ["At most 16 images fit a message."]]);
  expect(api.uploadImage).toHaveBeenCalledTimes(1 + MAX_IMAGES);
});

it("goes on with the next image when the server refuses one", async () => {
  vi.mocked(api.uploadImage).mockRejectedValueOnce(new ApiError(failureOf("network")));
  const { images, problems } = await uploadImages([], [file("a.png"), file("b.png")]);
  expect(images.map(({ name }) => name)).toEqual(["b.png"]);
  expect(problems).toEqual(["a.png: The server cannot be reached. Check the connection."]);
});
