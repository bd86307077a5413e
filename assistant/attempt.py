"""State of a job that the assistant answers: its steps, and what of its answer was released to the gateway."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field

import msgspec

from router.consumer.attempts import Attempt
from router.messages import Delta, Resume, Step, Usage, UsagePart


@dataclass(eq=False)
class AssistantAttempt(Attempt):
    """One attempt at a job: steps, then an answer whose tokens come from a child job."""

    task: asyncio.Task[None] | None = None
    """Task that answers; cancelling it cancels the child jobs."""
    steps: list[Step] = field(default_factory=list)
    """Ended steps, those of earlier attempts included."""
    prompt_tokens: int = 0
    """Prompt tokens of the child job that writes the answer; 0 until it has started."""
    cached_tokens: int = 0
    tokens: int = 0
    """Tokens of the answer, those of earlier attempts included."""
    final: Usage | None = None
    """Usage of the finished answer."""
    _text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._take_delivered()

    @property
    def position(self) -> int:
        """Position of the next delta: ended steps and tokens take one each."""
        return len(self.steps) + self.tokens

    @property
    def usage(self) -> Usage:
        """Usage of the answer so far; that of the steps is in their parts."""
        return self.final or Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.tokens,
            cached_tokens=min(self.cached_tokens, self.prompt_tokens),
        )

    @property
    def parts(self) -> list[UsagePart]:
        """Usage of the ended steps, those of earlier attempts included."""
        return [part for step in self.steps for part in step.parts]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the released text as a JSON list, as a proxy's."""
        return hashlib.sha256(msgspec.json.encode(["".join(self._text)])).hexdigest()

    def continue_after(self, resume: Resume) -> None:
        """Continue after the steps and the output that earlier attempts delivered, as the gateway lists them."""
        super().continue_after(resume)
        self._take_delivered()

    def release(self, delta: Delta) -> Delta:
        """Record a child job's delta as released, and return it as a delta of this job."""
        released = msgspec.structs.replace(
            delta, job_id=self.job.id, attempt_id=self.attempt_id, choice=0, start=self.position
        )
        self.tokens += delta.positions
        self.cached_tokens = max(self.cached_tokens, delta.cached_tokens)
        self._text.append(delta.text)
        self.progressed, self.solo = True, False
        return released

    def release_step(self, step: Step) -> Delta:
        """Record a step, if it has ended, and return its delta."""
        ended = step.state.ended
        delta = Delta(
            job_id=self.job.id,
            attempt_id=self.attempt_id,
            start=self.position,
            token_ids=[],
            untokenised_positions=int(ended),
            step=step,
        )
        if ended:
            self.steps.append(step)
            self.progressed, self.solo = True, False
        return delta

    def _take_delivered(self) -> None:
        self.steps = list(self.job.steps)
        self.tokens = self.job.delivered_positions(0) - len(self.steps)
        self.cached_tokens = self.job.cached_tokens
