"""Response models of the `usage` object of chat completions and completions."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.openai.base import ApiModel, OmitIfNone
from router.messages import Usage, UsagePart


class PromptTokensDetails(ApiModel):
    """Breakdown of the prompt's tokens; `cached_tokens` were found in the prefix cache."""

    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionTokensDetails(ApiModel):
    """Breakdown of the generated tokens; those of the reasoning include the markup around it. The others are zero."""

    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class PartUsage(ApiModel):
    """What the steps of an answer used of one model or tool (`tool.NAME`), billed at its price."""

    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: OmitIfNone[int] = None
    """The part of the prompt's tokens that was found in the prefix cache, if any."""
    units: OmitIfNone[dict[str, int]] = None
    """Numbers of things that are priced each: images by size, `call` for the calls of a tool."""

    @classmethod
    def of(cls, part: UsagePart) -> PartUsage:
        """Convert one part of a job's usage, of a step's model or tool, to its response model."""
        return cls(
            model=part.model,
            prompt_tokens=part.usage.prompt_tokens,
            completion_tokens=part.usage.completion_tokens,
            cached_tokens=part.usage.cached_tokens or None,
            units=part.usage.units or None,
        )


class CompletionUsage(ApiModel):
    """Number of tokens of one request, over all its prompts and choices, without those of the answer's steps."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    parts: OmitIfNone[list[PartUsage]] = None
    """An extension: what the steps before the answer used, by model; left out without steps."""

    @classmethod
    def of(cls, usage: Usage, parts: Iterable[UsagePart] = ()) -> CompletionUsage:
        """Convert a request's token counts, and the usage `parts` of its steps, to OpenAI's `usage` object."""
        return cls(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_tokens),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens=usage.reasoning_tokens),
            parts=[PartUsage.of(part) for part in parts] or None,
        )
