/** Functions that call the chat API's routes of conversations, presets and imports. All throw `ApiError`. */
import { API, json, type Request } from "./http";
import type {
  Attachment,
  ChatSettings,
  ConversationChanges,
  ConversationPage,
  ConversationSummary,
  ExportFormat,
  ImageReference,
  Import,
  Message,
  ModelList,
  Preset,
  SharedConversation,
  UploadedImage,
  WholeConversation,
} from "./chat_types";

export type { ImageReference };

export interface ListQuery {
  readonly q: string;
  readonly archived: boolean;
  readonly cursor: string | null;
  readonly limit: number;
}

export function listModels(): Promise<ModelList> {
  return call("GET", "/models");
}

export function listConversations({ q, archived, cursor, limit }: ListQuery): Promise<ConversationPage> {
  return call("GET", "/conversations", undefined, { q, archived, cursor, limit });
}

export function createConversation(settings: ChatSettings): Promise<ConversationSummary> {
  return call("POST", "/conversations", { settings });
}

export function readConversation(id: string): Promise<WholeConversation> {
  return call("GET", at(id));
}

export function changeConversation(id: string, changes: ConversationChanges): Promise<ConversationSummary> {
  return call("PATCH", at(id), changes);
}

export function deleteConversation(id: string): Promise<void> {
  return call("DELETE", at(id));
}

/** Uploads an image, which a question can have within an hour. */
export async function uploadImage(file: Blob): Promise<UploadedImage> {
  return call("POST", "/images", { data: await base64(file) });
}

function base64(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error("the file can't be read"));
    reader.readAsDataURL(file);
  });
}

export interface Question {
  readonly parent: string | null;
  readonly text: string;
  readonly attachments: readonly Attachment[];
  readonly images: readonly ImageReference[];
  /** Id of a question whose files and images are attached to this one too, as those of an edited question are. */
  readonly attachments_of: string | null;
  readonly settings: ChatSettings;
}

export function ask(id: string, question: Question): Promise<{ question: Message; answer: Message }> {
  return call("POST", `${at(id)}/messages`, question);
}

/** `allowed_once`: consent to a call of a tool in this answer alone. */
export function regenerate(
  id: string,
  message: string,
  settings: ChatSettings,
  allowed_once: string | null = null,
): Promise<{ answer: Message }> {
  return call("POST", `${at(id)}/messages/${encodeURIComponent(message)}/regenerate`, { settings, allowed_once });
}

export function stopAnswer(id: string, answer: string): Promise<unknown> {
  return call("POST", `${at(id)}/messages/${encodeURIComponent(answer)}/stop`);
}

export function share(id: string): Promise<{ token: string }> {
  return call("POST", `${at(id)}/share`);
}

export function unshare(id: string): Promise<void> {
  return call("DELETE", `${at(id)}/share`);
}

export function readShared(token: string): Promise<SharedConversation> {
  return call("GET", `/shared/${encodeURIComponent(token)}`);
}

/** Returns the download URL of an export; `ids` null: all conversations. */
export function exportAddress(format: ExportFormat, ids: readonly string[] | null): string {
  const query = new URLSearchParams({ format, ids: ids === null ? "all" : ids.join(",") });
  return `${API}/export?${query.toString()}`;
}

/** Starts the import of a JSON file that ChatGPT, Open WebUI or this chat exported. */
export async function beginImport(file: Blob): Promise<Import> {
  return (await json("POST", "/import", { file })) as Import;
}

/** Returns the progress of the last import; null if there is none. */
export async function lastImport(): Promise<Import | null> {
  return (await call<{ last: Import | null }>("GET", "/import")).last;
}

export async function listPresets(): Promise<readonly Preset[]> {
  return (await call<{ presets: readonly Preset[] }>("GET", "/presets")).presets;
}

export function createPreset(name: string, settings: ChatSettings): Promise<Preset> {
  return call("POST", "/presets", { name, settings });
}

export function changePreset(id: string, changes: { name?: string; settings?: ChatSettings }): Promise<Preset> {
  return call("PATCH", `/presets/${encodeURIComponent(id)}`, changes);
}

export function deletePreset(id: string): Promise<void> {
  return call("DELETE", `/presets/${encodeURIComponent(id)}`);
}

async function call<T>(method: string, path: string, body?: unknown, query: Request["query"] = {}): Promise<T> {
  return (await json(method, path, { body, query })) as T;
}

function at(id: string): string {
  return `/conversations/${encodeURIComponent(id)}`;
}
