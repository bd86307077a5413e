"""vLLM's shape of log probabilities of a prompt."""

from __future__ import annotations

from gateway.openai.base import ApiModel


class PromptLogprob(ApiModel):
    """One token at a position of the prompt. `rank` 1: no token was likelier."""

    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = list[dict[int, PromptLogprob] | None]
"""One entry a token; the first has none."""
