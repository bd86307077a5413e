/** Reactive model settings of a conversation; null means the model's default. */
import type { ChatSettings, SearchSettings } from "../api/chat_types";

export class Settings {
  model = $state("");
  system = $state("");
  temperature = $state<number | null>(null);
  topP = $state<number | null>(null);
  repetitionPenalty = $state<number | null>(null);
  maxTokens = $state<number | null>(null);
  /** Names of an assistant's tools that are switched off. */
  toolsOff = $state.raw<readonly string[]>([]);
  /** Consents to tools that ask for it: a tool's name, `@` and a fingerprint. They are not part of presets. */
  toolsAllowed = $state.raw<readonly string[]>([]);
  /** How answers are searched for by models that search; null: they are generated once. */
  search = $state.raw<SearchSettings | null>(null);
  /** Ids of the vector stores from whose passages questions are answered. */
  vectorStores = $state.raw<readonly string[]>([]);

  /** The settings as the API expects them. */
  get value(): ChatSettings {
    return {
      model: this.model,
      system: this.system.trim() === "" ? "" : this.system,
      temperature: this.temperature,
      top_p: this.topP,
      repetition_penalty: this.repetitionPenalty,
      max_tokens: this.maxTokens,
      tools_off: this.toolsOff,
      tools_allowed: this.toolsAllowed,
      test_time_compute: this.search,
      vector_stores: this.vectorStores,
    };
  }

  /** Replaces all settings; the model only if `settings` has one. */
  replace(settings: ChatSettings): void {
    this.model = settings.model || this.model;
    this.system = settings.system;
    this.temperature = settings.temperature;
    this.topP = settings.top_p;
    this.repetitionPenalty = settings.repetition_penalty;
    this.maxTokens = settings.max_tokens;
    this.toolsOff = settings.tools_off;
    this.toolsAllowed = settings.tools_allowed;
    this.search = settings.test_time_compute;
    this.vectorStores = settings.vector_stores;
  }

  /** Adds a consent; an earlier one to the same tool, as its server described it then, ends. */
  allow(consent: string): void {
    this.toolsAllowed = [...this.allowedWithout(toolOf(consent)), consent];
  }

  /** Withdraws the consents to a tool. */
  withdraw(tool: string): void {
    this.toolsAllowed = this.allowedWithout(tool);
  }

  /** Returns the consents to other tools. */
  allowedWithout(tool: string): readonly string[] {
    return this.toolsAllowed.filter((each) => toolOf(each) !== tool);
  }
}

/** Returns the name of the tool that a consent is for. */
export function toolOf(consent: string): string {
  return consent.split("@", 1)[0] ?? "";
}
