/** How to answer: what a person set goes into the request, and what was not set is left to the model's defaults. */
import type { ChatMessage, ChatRequest } from "../api/client";

export class Parameters {
  system = $state("");
  temperature = $state<number | null>(null);
  topP = $state<number | null>(null);
  maxTokens = $state<number | null>(null);

  /** A request to `model` for the next message of this conversation. */
  toRequest(model: string, messages: readonly ChatMessage[]): ChatRequest {
    const system: ChatMessage[] = this.system.trim() === "" ? [] : [{ role: "system", content: this.system }];
    return {
      model,
      messages: [...system, ...messages],
      ...(this.temperature === null ? {} : { temperature: this.temperature }),
      ...(this.topP === null ? {} : { top_p: this.topP }),
      ...(this.maxTokens === null ? {} : { max_completion_tokens: this.maxTokens }),
    };
  }
}
