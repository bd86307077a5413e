"""Holds the state of a job that an assistant answers: its steps, and the part of its answer that the gateway has."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field

import msgspec

from router.consumer.attempts import SteppedAttempt
from router.messages import Delta, Usage


@dataclass(eq=False)
class AssistantAttempt(SteppedAttempt):
    """One attempt at a job: steps, then an answer whose tokens come from a child job."""

    task: asyncio.Task[None] | None = None
    """Task that answers; cancelling it cancels the child jobs."""
    prompt_tokens: int = 0
    """Prompt tokens of the child job that writes the answer; 0 until it has started."""
    cached_tokens: int = 0
    final: Usage | None = None
    """Usage of the finished answer."""
    _text: list[str] = field(default_factory=list)

    @property
    def usage(self) -> Usage:
        """Usage of the written answer so far: tokens of its prompt and of its text. Steps bill their own usage."""
        return self.final or Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.tokens,
            cached_tokens=min(self.cached_tokens, self.prompt_tokens),
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the text released so far, as a JSON list of one string.

        The usage record has it, to be compared with what was delivered.
        """
        return hashlib.sha256(msgspec.json.encode(["".join(self._text)])).hexdigest()

    def release(self, delta: Delta) -> Delta:
        """Record the delta of a child job as released, and return it as a delta of this attempt's job, to be sent."""
        released = msgspec.structs.replace(
            delta, job_id=self.job.id, attempt_id=self.attempt_id, choice=0, start=self.position
        )
        self.tokens += delta.positions
        self.cached_tokens = max(self.cached_tokens, delta.cached_tokens)
        self._text.append(delta.text)
        self.progressed, self.solo = True, False
        return released

    def _take_delivered(self) -> None:
        super()._take_delivered()
        self.cached_tokens = self.job.cached_tokens
