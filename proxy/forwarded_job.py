"""A job that is answered outside: where the connection is, and what of the answer has been released to the gateway."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from proxy.stream import Piece
from proxy.usage import Count, believable, most, prompt_estimate
from router.consumer.taken_jobs import TakenJob
from router.messages import Delta, EmbeddingPrompt, Usage


@dataclass(eq=False)
class ForwardedJob(TakenJob):
    """One attempt at one job, at one upstream after the other until one has begun to answer."""

    max_model_len: int = 1
    task: asyncio.Task[None] | None = None
    """Asks the upstreams; cancelling it closes the connection."""
    texts: list[list[str]] = field(default_factory=list)
    """Per choice, what was released."""
    positions: list[int] = field(default_factory=list)
    count: Count = field(default_factory=Count)
    """Of what was released."""
    size: int = 0
    """Bytes of text and calls that have been released."""
    said: Any = None
    """The upstream's word on usage, unchecked."""
    asked: bool = False
    """Whether an upstream took the request: then it has read the prompt."""

    def __post_init__(self) -> None:
        self.texts = [[] for _ in range(self.job.n)]
        self.positions = [0] * self.job.n

    @property
    def begun(self) -> bool:
        """Whether something was released: nobody else can answer it any more."""
        return self.size > 0

    def release(self, piece: Piece) -> Delta:
        """A piece as what the gateway is told; counted. Token ids are not known: positions count pieces."""
        tokens = len(piece.logprobs or ())
        positions = tokens or int(piece.size > 0)
        delta = Delta(
            job_id=self.job.id,
            attempt_id=self.attempt,
            choice=piece.choice,
            start=self.positions[piece.choice],
            token_ids=[],
            untokenised_positions=positions,
            text=piece.text,
            logprobs=piece.logprobs,
            tool_calls=piece.calls,
            finish_reason=piece.finish,
        )
        self.positions[piece.choice] += positions
        self.texts[piece.choice].append(piece.text)
        self.count.add(piece.size, tokens)
        self.size += piece.size
        self.moved, self.solo = True, False
        return delta

    @property
    def usage(self) -> Usage:
        """The upstream's word if it can be true, else an estimate of what was delivered."""
        if (told := self.told_usage) is not None:
            return told
        bound = most(self.job, self.max_model_len)
        return Usage(
            prompt_tokens=min(prompt_estimate(self.job), bound.prompt_tokens) if self.asked else 0,
            completion_tokens=min(self.count.tokens, bound.completion_tokens),
        )

    @property
    def told_usage(self) -> Usage | None:
        """The upstream's word, if there is one that can be true."""
        return believable(self.said, self.job, max_model_len=self.max_model_len, size=self.size)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the released texts as compact JSON, one per choice: `["Hello","Hi"]`; none of vectors."""
        if isinstance(self.job.prompt, EmbeddingPrompt):
            return ""
        return hashlib.sha256(msgspec.json.encode(["".join(text) for text in self.texts])).hexdigest()
