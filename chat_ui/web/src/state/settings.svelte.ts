/** How to answer, as it is being set. What is not set is left to the model. */
import type { ChatSettings } from "../api/chat_types";

export class Settings {
  model = $state("");
  system = $state("");
  temperature = $state<number | null>(null);
  topP = $state<number | null>(null);
  repetitionPenalty = $state<number | null>(null);
  maxTokens = $state<number | null>(null);

  /** As the API takes them. */
  get value(): ChatSettings {
    return {
      model: this.model,
      system: this.system.trim() === "" ? "" : this.system,
      temperature: this.temperature,
      top_p: this.topP,
      repetition_penalty: this.repetitionPenalty,
      max_tokens: this.maxTokens,
    };
  }

  /** Takes all of `settings` over; the model only if there is one. */
  take(settings: ChatSettings): void {
    this.model = settings.model || this.model;
    this.system = settings.system;
    this.temperature = settings.temperature;
    this.topP = settings.top_p;
    this.repetitionPenalty = settings.repetition_penalty;
    this.maxTokens = settings.max_tokens;
  }
}
