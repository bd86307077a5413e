import { expect, it } from "vitest";
import { MAX_TOTAL_BYTES, MAX_FILES, readFiles } from "./read_files";

/** jsdom's files can't be read, so these bring their bytes with them. */
function file(name: string, content: string | Uint8Array<ArrayBuffer>): File {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  return Object.assign(new File([bytes], name), { arrayBuffer: () => Promise.resolve(bytes.buffer) });
}

it("reads text, replaces a file of the same name, and reports what it left out", async () => {
  const { attachments, problems } = await readFiles(
    [{ name: "a", text: "old" }],
    [file("a", "new"), file("ł", "zażółć"), file("zip", "PK\0"), file("latin", new Uint8Array([0xe9]))],
  );
  expect(attachments).toEqual([
    { name: "a", text: "new" },
    { name: "ł", text: "zażółć" },
  ]);
  expect(problems).toEqual(["zip is not a text file.", "latin is not a text file."]);
});

it("keeps the API's limits", async () => {
  const large = await readFiles([], [file("a", "x".repeat(MAX_TOTAL_BYTES)), file("b", "x")]);
  expect(large.attachments.map(({ name }) => name)).toEqual(["a"]);
  const many = await readFiles([], Array.from({ length: MAX_FILES + 1 }, (_, index) => file(String(index), "")));
  expect([many.attachments.length, many.problems.length]).toEqual([MAX_FILES, 1]);
});
