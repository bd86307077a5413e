/** What the chat's API sends and takes, as this page names it. Times are Unix seconds, money is nano-USD. */

export interface Model {
  readonly id: string;
  readonly context: number;
  readonly price: { readonly input_nano: number; readonly cached_input_nano: number; readonly output_nano: number } | null;
  readonly ready: boolean;
}

/** How to answer; null leaves it to the model. */
export interface ChatSettings {
  readonly model: string;
  readonly system: string;
  readonly temperature: number | null;
  readonly top_p: number | null;
  readonly repetition_penalty: number | null;
  readonly max_tokens: number | null;
}

export type AnswerState = "waiting" | "running" | "done" | "stopped" | "failed";

export interface Usage {
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
}

export interface Message {
  readonly id: string;
  readonly parent: string | null;
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly created: number;
  readonly attachments: readonly { readonly name: string; readonly size: number }[];
  readonly model: string | null;
  readonly state: AnswerState;
  readonly error: { readonly code: string; readonly message: string; readonly retry_after: number | null } | null;
  readonly finish_reason: string | null;
  readonly usage: Usage | null;
  readonly cost_nano: number | null;
  readonly seconds: number | null;
  readonly first_token_seconds: number | null;
}

export interface ConversationSummary {
  readonly id: string;
  readonly title: string;
  readonly updated: number;
  readonly created: number;
  readonly pinned: boolean;
  readonly archived: boolean;
  readonly shared: boolean;
  readonly model: string;
  readonly running: boolean;
  readonly match: string | null;
}

export interface WholeConversation extends ConversationSummary {
  readonly settings: ChatSettings;
  readonly leaf: string | null;
  readonly messages: readonly Message[];
}

export interface ConversationPage {
  readonly conversations: readonly ConversationSummary[];
  readonly next: string | null;
  readonly total: number;
}

export interface ConversationChanges {
  readonly title?: string;
  readonly pinned?: boolean;
  readonly archived?: boolean;
  readonly leaf?: string;
}

export interface Attachment {
  readonly name: string;
  readonly text: string;
}

export interface SharedConversation {
  readonly title: string;
  readonly messages: readonly Message[];
}

export interface Preset {
  readonly id: string;
  readonly name: string;
  readonly settings: ChatSettings;
}

export interface Imported {
  readonly imported: number;
  readonly skipped: readonly { readonly title: string; readonly reason: string }[];
}

export type ExportFormat = "xlsx" | "csv" | "json" | "markdown";
