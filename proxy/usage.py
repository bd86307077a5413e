"""Decides the billed usage of an upstream's answer: as reported if plausible, else estimated; bounds job tokens.

A missing or implausible report must make an answer neither free nor expensive. There is no tokenizer for the estimate:
a piece of the stream with log probabilities has as many tokens as those; any other has at least one token (servers send
one or a few at a time), and about one per four bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    ImagePrompt,
    Job,
    PromptBounds,
    ScorePrompt,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
    Usage,
)
from router.usage_bound import max_usage

BYTES_PER_TOKEN = 4
BOUNDS = PromptBounds(per_byte=1, per_text=16, per_conversation=64, per_message=16, tools=512)
"""Bounds for any upstream's model, whose tokens have at least one byte. Reported usage beyond them is implausible."""
MAX_TOKEN_BYTES = 256
"""Bytes of the longest token; vocabularies have runs of blanks of about half that."""


def estimate_tokens(size: int) -> int:
    """Estimate the number of tokens in a text of `size` UTF-8 bytes: at least 1, or 0 if `size` is 0."""
    return -(-size // BYTES_PER_TOKEN)


@dataclass
class TokenCount:
    """Estimate of the tokens in the pieces of an answer added so far."""

    exact: int = 0
    """Tokens of the pieces with log probabilities."""
    pieces: int = 0
    """Number of the pieces without log probabilities."""
    size: int = 0
    """Bytes of the pieces without log probabilities."""

    def add(self, size: int, logprobs: int) -> None:
        """Add a piece of an answer to the estimate: `logprobs` tokens if not 0, else by its `size` in bytes."""
        if logprobs:
            self.exact += logprobs
        elif size:
            self.pieces += 1
            self.size += size

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of all pieces of the answer added; at least 1 once a piece was not empty."""
        return self.exact + max(self.pieces, estimate_tokens(self.size))


def estimate_prompt_tokens(job: Job) -> int:
    """Estimate the number of tokens of a job's prompt, when the upstream has not reported it; exact for token ids."""
    match job.prompt:
        case TokenPrompt():
            return len(job.prompt.token_ids)
        case TextPrompt():
            return estimate_tokens(len(job.prompt.text.encode()))
        case ChatPrompt():
            tools = json.dumps(job.prompt.tools, ensure_ascii=False) if job.prompt.tools else ""
            return estimate_tokens(
                len(json.dumps(job.prompt.messages, ensure_ascii=False).encode()) + len(tools.encode())
            )
        case EmbeddingPrompt():
            return sum(
                len(item) if isinstance(item, list) else estimate_tokens(len(item.encode()))
                for item in job.prompt.inputs
            )
        case ImagePrompt() | ScorePrompt() | TokenisationPrompt():
            return 0


def usage_limit(job: Job, max_model_len: int) -> Usage:
    """Return the most prompt and completion tokens, over all choices, that a job may be billed for."""
    return max_usage(job, max_model_len, BOUNDS)


def with_token_limit(job: Job, max_model_len: int) -> Job:
    """Return the job, with the operator's default `max_tokens` set if its client set none.

    Returns the job unchanged if prompt and limit together may exceed the context, which an upstream would reject.
    """
    limit = job.sampling.default_max_tokens
    if job.sampling.max_tokens is not None or limit is None:
        return job
    if usage_limit(job, max_model_len).prompt_tokens + limit > max_model_len:
        return job
    return replace(job, sampling=replace(job.sampling, max_tokens=limit))


def plausible_usage(reported: Any, job: Job, *, max_model_len: int, size: int) -> Usage | None:
    """Validate the `usage` that an upstream `reported` for an answer of `size` bytes.

    Return `None` if it is absent or implausible. A plausible usage may count hidden tokens (reasoning), but not more
    than the job allows, and not fewer than the delivered bytes need. A prompt has at least one token, and at most those
    of the context and those that its bytes allow.
    """
    prompt, completion = _count(reported, "prompt_tokens"), _count(reported, "completion_tokens")
    limit = usage_limit(job, max_model_len)
    if prompt is None or not 1 <= prompt <= limit.prompt_tokens:
        return None
    if isinstance(job.prompt, EmbeddingPrompt):
        return Usage(prompt_tokens=prompt)
    if completion is None or not -(-size // MAX_TOKEN_BYTES) <= completion <= limit.completion_tokens:
        return None
    cached = _count(reported.get("prompt_tokens_details"), "cached_tokens") or 0
    reasoning = _count(reported.get("completion_tokens_details"), "reasoning_tokens") or 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached if cached <= prompt else 0,
        reasoning_tokens=reasoning if reasoning <= completion else 0,
    )


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
