"""Defines the data between the engine's scheduler and its model runner: a planned step (`Batch`), its `StepResult`."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import PositionLogprobs, PromptScores


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """One sequence's share of a step: `count` tokens from position `start` on, known tokens first, then `drafts`.

    Attributes:
        drafts: draft tokens that follow the last known token; empty if the step does not reach that one.
    """

    sequence: Sequence
    start: int
    count: int
    drafts: tuple[int, ...] = ()

    @property
    def token_ids(self) -> array[int]:
        """Ids of the tokens of this sequence that the step computes, drafts included, in order of position."""
        known = self.sequence.token_ids[self.start : self.start + self.count]
        return known + array("q", self.drafts) if self.drafts else known

    @property
    def sample_count(self) -> int:
        """Number of tokens that the step samples for this sequence.

        One after the last known token and one after each draft; 0 if the step does not reach the last known token.
        """
        return 1 + len(self.drafts) if self.start + self.count >= len(self.sequence.token_ids) else 0

    @property
    def scored(self) -> range:
        """Prompt positions whose log probabilities this step yields; empty if the request wants none.

        The log probability at a position is computed from the hidden state of the position before it.
        """
        sequence = self.sequence
        if sequence.sampling.prompt_logprobs is None:
            return range(0)
        end = min(self.start + self.count + 1, sequence.prompt_length)
        return range(max(self.start + 1, sequence.scored), end)

    @property
    def states_needed(self) -> int:
        """Number of this sequence's last tokens in the step whose final hidden states are read.

        They are read to sample next tokens, or for log probabilities of the prompt.
        """
        scored = self.scored
        for_scores = self.start + self.count - (scored.start - 1) if scored else 0
        return max(self.sample_count, for_scores)

    def sampling_contexts(self) -> list[Sequence]:
        """Return the sequences that the sampler reads, one for each of the `sample_count` tokens to sample.

        The first is the sequence itself, each further one a copy with one more draft appended; empty if none is
        sampled.
        """
        if not self.sample_count:
            return []
        return [
            self.sequence,
            *(self.sequence.with_tokens(self.drafts[:right]) for right in range(1, self.sample_count)),
        ]


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A copy-on-write of cache block `source` to block `target`, made before the step writes to the cache."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One planned step. Each entry belongs to a different sequence; the copies are made together, before anything else.

    Attributes:
        steps: decode steps that the runner may compute before the next plan. Above 1 every entry is a pure decode, and
            blocks for that many tokens of each sequence are allocated; the runner may stop earlier.
    """

    entries: list[ScheduledSequence] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)
    steps: int = 1

    @property
    def is_flex(self) -> bool:
        """Whether the step computes sequences of the class `flex` alone."""
        return bool(self.entries) and all(entry.sequence.flex for entry in self.entries)

    def computes(self, request: str) -> bool:
        """Return whether a sequence of the request with the id `request` is in the step."""
        return any(entry.sequence.request == request for entry in self.entries)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of computing a batch. Lists have one item per entry, in the batch's order.

    Attributes:
        token_ids: sampled token ids, `ScheduledSequence.sample_count` per entry; that at index i is valid only if the
            first i drafts are accepted. With several steps: one token per step, even past the end of a choice.
        logprobs: log probabilities of these tokens; `None` where the request does not want them.
        failed: ids of requests that could not be computed; their entries have no tokens.
        scores: prompt log probabilities by request id.
    """

    token_ids: list[list[int]] = field(default_factory=list)
    logprobs: list[list[PositionLogprobs] | None] = field(default_factory=list)
    failed: frozenset[str] = frozenset()
    scores: dict[str, PromptScores] = field(default_factory=dict)

    def __add__(self, other: StepResult) -> StepResult:
        """Concatenate the results of two batches."""
        return StepResult(
            self.token_ids + other.token_ids,
            self.logprobs + other.logprobs,
            self.failed | other.failed,
            self.scores | other.scores,
        )
