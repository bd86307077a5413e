/** Types of the chat API's conversation routes. Times are Unix seconds, money is integer nano-USD. */
import type { components } from "./openapi";

type Schemas = components["schemas"];

export type Model = Schemas["ChatModel"];
export type ModelList = Schemas["ModelList"];
/** What searches for answers can use: verifiers and limits. */
export type SearchOffer = Schemas["SearchOffer"];
/** How answers are searched for. */
export type SearchSettings = Schemas["SearchSettings"];
/** Model, system prompt and sampling settings; null means the model's default. */
export type ChatSettings = Schemas["ModelSettings"];
export type Message = Schemas["Message"];
export type Step = Schemas["Step"];
export type ConversationSummary = Schemas["ConversationRow"];
export type WholeConversation = Schemas["Conversation"];
export type ConversationPage = Schemas["ConversationPage"];
/** Changes of a conversation; missing fields stay unchanged. */
export type ConversationChanges = Partial<Pick<ConversationSummary, "title" | "pinned" | "archived">> & { leaf?: string; settings?: ChatSettings };
export type Attachment = Schemas["AttachmentBody"];
/** An uploaded image that a question shall have. */
export type ImageReference = Schemas["ImageReferenceBody"];
export type UploadedImage = Schemas["UploadedImage"];
export type SharedConversation = Schemas["SharedConversation"];
export type Preset = Schemas["Preset"];
export type Import = Schemas["Import"];
export type SkipReason = Schemas["SkipReason"];

export type ExportFormat = "xlsx" | "csv" | "json" | "markdown";
