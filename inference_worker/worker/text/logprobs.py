"""Converts the engine's log probabilities from token ids to the API's form, with each token's text."""

from __future__ import annotations

from inference_worker.engine_protocol import Candidate, PositionLogprobs
from inference_worker.tokenizer.tokenizer import Tokenizer
from router.messages import TokenAlternative, TokenLogprob


def token_logprob(tokenizer: Tokenizer, logprobs: PositionLogprobs) -> TokenLogprob:
    """Convert one position's log probabilities (chosen token, alternatives) to the API's form with tokens' texts."""
    return TokenLogprob(
        _alternative(tokenizer, logprobs.chosen), [_alternative(tokenizer, one) for one in logprobs.top]
    )


def _alternative(tokenizer: Tokenizer, candidate: Candidate) -> TokenAlternative:
    return TokenAlternative(candidate.id, tokenizer.token_text(candidate.id), candidate.logprob)
