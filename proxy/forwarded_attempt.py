"""State of one job that the proxy forwards to upstreams: its task, and the output sent to the gateway so far."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from proxy.images import ForwardedImage
from proxy.stream import ChoiceDelta
from proxy.usage import TokenCount, estimate_prompt_tokens, plausible_usage, usage_limit
from router.consumer.attempts import Attempt
from router.messages import Delta, Drawn, EmbeddingPrompt, ImagePrompt, Usage


@dataclass(eq=False)
class ForwardedAttempt(Attempt):
    """One attempt at a job, which tries upstreams in turn until one begins to answer."""

    max_model_len: int = 1
    task: asyncio.Task[None] | None = None
    """Task that requests the answer; cancelling it closes the connection."""
    texts: list[list[str]] = field(default_factory=list)
    """Per choice, the released texts."""
    positions: list[int] = field(default_factory=list)
    """Per choice, the next position."""
    token_count: TokenCount = field(default_factory=TokenCount)
    """Estimated tokens of what was released."""
    size: int = 0
    """Bytes of the released text, reasoning and tool calls."""
    reported_usage: Any = None
    """The upstream's `usage`, unchecked."""
    images: int = 0
    """Number of images released to the gateway by this attempt."""
    accepted: bool = False
    """Whether an upstream has accepted the request, and so has processed the prompt."""

    def __post_init__(self) -> None:
        self.texts = [[] for _ in range(self.job.n)]
        self.positions = [0] * self.job.n

    @property
    def continues(self) -> bool:
        """Always false: an upstream can't continue an answer of which another worker has delivered a part."""
        return False

    @property
    def begun(self) -> bool:
        """Whether part of the answer was sent to the gateway, so that the proxy may try no other upstream."""
        return self.size > 0

    def release_image(self, index: int, image: ForwardedImage) -> Drawn:
        """Count an upstream's image as sent to the gateway, and return its reply.

        `index` is the image's number in the job.
        """
        self.images += 1
        self.progressed, self.solo = True, False
        return Drawn(
            job_id=self.job.id,
            attempt_id=self.attempt_id,
            start=index,
            images=[image.png],
            revised_prompt=image.revised_prompt,
        )

    def release(self, piece: ChoiceDelta) -> Delta:
        """Count one piece of an upstream's answer as sent, and return it as the `Delta` reply to the gateway.

        The delta covers as many positions as the piece has log probabilities. Without any, it covers the estimated
        tokens, which a client that disconnects pays for: at least one if the piece is not empty, and no more than the
        job has left.
        """
        tokens, before = len(piece.logprobs or ()), self.token_count.tokens
        self.token_count.add(piece.size, tokens)
        positions = tokens
        if piece.size and not tokens:
            left = self._limit.completion_tokens - sum(self.positions)
            positions = max(1, min(self.token_count.tokens - before, left))
        delta = Delta(
            job_id=self.job.id,
            attempt_id=self.attempt_id,
            choice=piece.choice,
            start=self.positions[piece.choice],
            token_ids=[],
            untokenised_positions=positions,
            text=piece.text,
            reasoning=piece.reasoning,
            logprobs=piece.logprobs,
            tool_calls=piece.calls,
            finish_reason=piece.finish,
        )
        self.positions[piece.choice] += positions
        self.texts[piece.choice].append(piece.text)
        self.size += piece.size
        self.progressed, self.solo = True, False
        return delta

    @property
    def usage(self) -> Usage:
        """Tokens or images of the job so far: as the upstream reported if plausible, else estimated from the output."""
        if (reported := self.plausible_usage) is not None:
            return reported
        return Usage(
            prompt_tokens=min(estimate_prompt_tokens(self.job), self._limit.prompt_tokens) if self.accepted else 0,
            completion_tokens=min(self.token_count.tokens, self._limit.completion_tokens),
        )

    @cached_property
    def _limit(self) -> Usage:
        """The most tokens that the job may use."""
        return usage_limit(self.job, self.max_model_len)

    @property
    def plausible_usage(self) -> Usage | None:
        """Usage that the upstream reported; `None` if it is absent or implausible.

        Images are counted by the proxy itself.
        """
        if isinstance(self.job.prompt, ImagePrompt):
            images = self.images + len(self.job.ended)
            return Usage(prompt_tokens=0, units={self.job.prompt.size: images} if images else {})
        return plausible_usage(self.reported_usage, self.job, max_model_len=self.max_model_len, size=self.size)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the texts sent, as compact JSON with one text per choice: `["Hello","Hi"]`.

        "" without texts.
        """
        if isinstance(self.job.prompt, EmbeddingPrompt | ImagePrompt):
            return ""
        return hashlib.sha256(msgspec.json.encode(["".join(text) for text in self.texts])).hexdigest()
