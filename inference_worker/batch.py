"""What crosses between planning and computing: the planned step and its outcome, in plain numbers.

Knows no tensors; the scheduler writes a `Batch` and reads a `StepResult`, the runner the other way round.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from inference_worker.engine_protocol import PositionLogprobs, PromptScores
from inference_worker.sequence import Sequence


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """Compute `count` tokens of a sequence from position `start` on: known ones, and at their end `drafts`.

    Attributes:
        drafts: guesses at the tokens after the last known one; empty if that one is not reached.
    """

    sequence: Sequence
    start: int
    count: int
    drafts: tuple[int, ...] = ()

    @property
    def token_ids(self) -> array[int]:
        """The tokens to compute."""
        known = self.sequence.token_ids[self.start : self.start + self.count]
        return known + array("q", self.drafts) if self.drafts else known

    @property
    def draws(self) -> int:
        """After how many of its last tokens the next one is drawn: the last known token and all drafts, or none."""
        return 1 + len(self.drafts) if self.start + self.count >= len(self.sequence.token_ids) else 0

    @property
    def scored(self) -> range:
        """Positions of the prompt's tokens whose log probabilities this step tells: each from the one before it."""
        sequence = self.sequence
        if sequence.sampling.prompt_logprobs is None:
            return range(0)
        end = min(self.start + self.count + 1, sequence.prompt_length)
        return range(max(self.start + 1, sequence.scored), end)

    @property
    def states_read(self) -> int:
        """Of how many of its last tokens somebody reads the states: who draws from them or scores the prompt."""
        scored = self.scored
        told = self.start + self.count - (scored.start - 1) if scored else 0
        return max(self.draws, told)

    def drawn(self) -> list[Sequence]:
        """For each of these the sequence as it is if the drafts so far are right: what the draw depends on."""
        if not self.draws:
            return []
        return [self.sequence, *(self.sequence.ahead(self.drafts[:right]) for right in range(1, self.draws))]


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy a whole cache block before anything of the step is written (copy-on-write)."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: every entry is another sequence. Copies happen at once and first.

    Attributes:
        steps: if more than one, every entry only goes on, and may go on for so many steps: there are blocks for as many
            tokens of each. Whoever computes them may stop earlier.
    """

    entries: list[ScheduledSequence] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)
    steps: int = 1


@dataclass(frozen=True, slots=True)
class StepResult:
    """Per entry of the batch, in its order.

    Attributes:
        token_ids: the drawn tokens, `ScheduledSequence.draws` of them. The one at index i is drawn as if i drafts were
            right; it says nothing if one of them is not. Of several steps: one token a step, whatever ends with it.
        logprobs: of these tokens; `None` where nobody asked.
        failed: requests that could not be computed; their entries have no tokens.
        scores: of prompts, by request.
    """

    token_ids: list[list[int]] = field(default_factory=list)
    logprobs: list[list[PositionLogprobs] | None] = field(default_factory=list)
    failed: frozenset[str] = frozenset()
    scores: dict[str, PromptScores] = field(default_factory=dict)

    def __add__(self, other: StepResult) -> StepResult:
        """The result of two batches computed one after the other."""
        return StepResult(
            self.token_ids + other.token_ids,
            self.logprobs + other.logprobs,
            self.failed | other.failed,
            self.scores | other.scores,
        )
