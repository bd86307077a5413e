"""Models of the `usage` object of chat completions and completions."""

from __future__ import annotations

from gateway.openai.base import ApiModel
from router.messages import Usage


class PromptTokensDetails(ApiModel):
    """Breakdown of the prompt's tokens; `cached_tokens` were found in the prefix cache."""

    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionTokensDetails(ApiModel):
    """Breakdown of the generated tokens. All zero: reasoning and audio are not counted apart from text."""

    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class CompletionUsage(ApiModel):
    """Number of tokens of one request, over all its prompts and choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails

    @classmethod
    def of(cls, usage: Usage) -> CompletionUsage:
        """Return a request's token counts in OpenAI's fields."""
        return cls(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_tokens),
            completion_tokens_details=CompletionTokensDetails(),
        )
