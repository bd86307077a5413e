"""What crosses between planning and computing: the planned step and its outcome, in plain numbers.

Knows no tensors; the scheduler writes a `Batch` and reads a `StepResult`, the runner the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inference_worker.engine_protocol import PositionLogprobs
from inference_worker.sequence import Sequence


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """Compute tokens `start .. start+count-1` of a sequence."""

    sequence: Sequence
    start: int
    count: int

    @property
    def samples(self) -> bool:
        """The last known token is among them, so the next one can be drawn."""
        return self.start + self.count == len(self.sequence.token_ids)


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy a whole cache block before anything of the step is written (copy-on-write)."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: every entry is another sequence. Copies happen at once and first."""

    entries: list[ScheduledSequence] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StepResult:
    """Per entry of the batch, in its order.

    Attributes:
        token_ids: the drawn token; `None` where the entry does not sample.
        logprobs: of that token; `None` where nobody asked.
        failed: requests that could not be computed; their entries hold `None`.
    """

    token_ids: list[int | None] = field(default_factory=list)
    logprobs: list[PositionLogprobs | None] = field(default_factory=list)
    failed: frozenset[str] = frozenset()

    def __add__(self, other: StepResult) -> StepResult:
        """The result of two batches computed one after the other."""
        return StepResult(self.token_ids + other.token_ids, self.logprobs + other.logprobs, self.failed | other.failed)
