/** Reads files that a person attaches as text, within the API's size limits. */
import type { Attachment } from "../api/chat_types";
import { count } from "../ui/format";
import { texts } from "../ui/messages";

export const MAX_FILES = 10;
/** Bytes of UTF-8 of all files of a message together. */
export const MAX_TOTAL_BYTES = 1_048_576;

interface Read {
  readonly attachments: readonly Attachment[];
  /** Messages that say why files were left out. */
  readonly problems: readonly string[];
}

/** Adds `files` to `present`; a file of the same name is replaced, a file that is not text is left out. */
export async function readFiles(present: readonly Attachment[], files: readonly File[]): Promise<Read> {
  const kept = new Map(present.map((attachment) => [attachment.name, attachment]));
  const problems: string[] = [];
  for (const file of files) {
    const text = file.size > MAX_TOTAL_BYTES ? "" : await textOf(file);
    if (text === null) problems.push(texts.fileNotText(file.name));
    else if (file.size > MAX_TOTAL_BYTES || sizeOf([...kept.values()]) + file.size > MAX_TOTAL_BYTES)
      problems.push(texts.filesTooLarge("1 MiB"));
    else if (kept.size >= MAX_FILES && !kept.has(file.name)) problems.push(texts.filesTooMany(count(MAX_FILES)));
    else kept.set(file.name, { name: file.name, text });
  }
  return { attachments: [...kept.values()], problems };
}

export function sizeOf(attachments: readonly Attachment[]): number {
  const encoder = new TextEncoder();
  return attachments.reduce((sum, { text }) => sum + encoder.encode(text).length, 0);
}

/** Returns the text of a file; null if it is not UTF-8 or contains a zero byte. */
async function textOf(file: File): Promise<string | null> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
