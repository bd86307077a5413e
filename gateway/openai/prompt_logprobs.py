"""Response model of a prompt's log probabilities, in vLLM's format."""

from __future__ import annotations

from gateway.openai.base import ApiModel


class PromptLogprob(ApiModel):
    """One token at a position of the prompt. `rank` counts from 1, the most likely token of the vocabulary."""

    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = list[dict[int, PromptLogprob] | None]
"""One entry per token of the prompt, by token id; null for the first token."""
