"""What an answer from outside took: the upstream's word where it can be true, else an estimate of what was delivered.

An upstream that says nothing, or can't be right, must make an answer neither free nor dear. We have no tokenizer of its
model; the estimate is made of what we have. A piece of the stream with log probabilities has as many tokens as those.
Of the others, each has one at least (servers send token by token, or a few together), and four bytes are about a token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from router.messages import ChatPrompt, EmbeddingPrompt, Job, PromptBounds, TextPrompt, TokenPrompt, Usage
from router.usage_bound import most_usage

BYTES_A_TOKEN = 4
BOUNDS = PromptBounds(per_byte=1, per_text=16, per_conversation=64, per_message=16, tools=512)
"""Of any model outside: its tokens are bytes at least. An upstream that counts more than this is not believed."""
LONGEST_TOKEN = 256
"""Bytes; vocabularies have runs of blanks of about half that."""


def tokens_in(size: int) -> int:
    """Tokens in so many bytes of text, about; at least one if there are any."""
    return -(-size // BYTES_A_TOKEN)


@dataclass
class Count:
    """Tokens of pieces, about."""

    exact: int = 0
    """Of pieces with log probabilities."""
    pieces: int = 0
    """Those without."""
    size: int = 0
    """Their bytes."""

    def add(self, size: int, logprobs: int) -> None:
        """One more piece, of so many bytes and log probabilities."""
        if logprobs:
            self.exact += logprobs
        elif size:
            self.pieces += 1
            self.size += size

    @property
    def tokens(self) -> int:
        """The estimate; never 0 once there was something."""
        return self.exact + max(self.pieces, tokens_in(self.size))


def prompt_estimate(job: Job) -> int:
    """Tokens of a prompt, about: exact for token ids."""
    match job.prompt:
        case TokenPrompt():
            return len(job.prompt.token_ids)
        case TextPrompt():
            return tokens_in(len(job.prompt.text.encode()))
        case ChatPrompt():
            tools = json.dumps(job.prompt.tools, ensure_ascii=False) if job.prompt.tools else ""
            return tokens_in(len(json.dumps(job.prompt.messages, ensure_ascii=False).encode()) + len(tools.encode()))
        case EmbeddingPrompt():
            return sum(
                len(item) if isinstance(item, list) else tokens_in(len(item.encode())) for item in job.prompt.inputs
            )


def most(job: Job, max_model_len: int) -> Usage:
    """What a job may use at most, its answer over all choices; nobody pays for more."""
    return most_usage(job, max_model_len, BOUNDS)


def limited(job: Job, max_model_len: int) -> Job:
    """The job with the operator's limit where its client has set none.

    Not where a prompt may be so long that an upstream would refuse both together.
    """
    limit = job.sampling.default_max_tokens
    if job.sampling.max_tokens is not None or limit is None:
        return job
    if most(job, max_model_len).prompt_tokens + limit > max_model_len:
        return job
    return replace(job, sampling=replace(job.sampling, max_tokens=limit))


def believable(said: Any, job: Job, *, max_model_len: int, size: int) -> Usage | None:
    """An upstream's `usage` for an answer of `size` bytes; `None` if it is absent or can't be true.

    It may count tokens that nobody sees (reasoning), but no more than the job allows, and no fewer than what was
    delivered needs. A prompt is never empty, and never longer than the context or than its bytes allow.
    """
    prompt, completion = _count(said, "prompt_tokens"), _count(said, "completion_tokens")
    bound = most(job, max_model_len)
    if prompt is None or not 1 <= prompt <= bound.prompt_tokens:
        return None
    if isinstance(job.prompt, EmbeddingPrompt):
        return Usage(prompt_tokens=prompt)
    if completion is None or not -(-size // LONGEST_TOKEN) <= completion <= bound.completion_tokens:
        return None
    cached = _count(said.get("prompt_tokens_details"), "cached_tokens") or 0
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached if cached <= prompt else 0)


def _count(said: Any, name: str) -> int | None:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
