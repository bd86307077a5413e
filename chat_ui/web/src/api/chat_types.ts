/** Names for what the chat's API sends and takes about conversations. Times are Unix seconds, money integer nano-USD. */
import type { components } from "./openapi";

type Schemas = components["schemas"];

export type Model = Schemas["ChatModel"];
/** How to answer; null leaves it to the model. */
export type ChatSettings = Schemas["ModelSettings"];
export type Message = Schemas["Message"];
export type ConversationSummary = Schemas["ConversationRow"];
export type WholeConversation = Schemas["Conversation"];
export type ConversationPage = Schemas["ConversationPage"];
/** What is left out stays. */
export type ConversationChanges = Partial<Pick<ConversationSummary, "title" | "pinned" | "archived">> & { leaf?: string };
export type Attachment = Schemas["AttachmentBody"];
export type SharedConversation = Schemas["SharedConversation"];
export type Preset = Schemas["Preset"];
export type Import = Schemas["Import"];
export type SkipReason = Schemas["SkipReason"];

export type ExportFormat = "xlsx" | "csv" | "json" | "markdown";
