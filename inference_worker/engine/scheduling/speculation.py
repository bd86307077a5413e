"""Decides for speculative decoding which draft tokens a step computes, and which of the sampled tokens are accepted.

A decoding sequence may compute draft tokens after its last token. One step then samples the token after each of them,
and accepts as many as there are right drafts, and one more. Leviathan et al. 2023, Chen et al. 2023.

It is exact. A sample depends only on the model's distribution at its position and on the random number of (seed,
choice, position) (`sampling/sampler.py`). Every row is sampled from the distribution after all tokens before it, drafts
and their penalties included, with the random number of its own position; it is accepted only if these drafts equal the
sampled tokens. So each accepted token is the very one that would have been sampled without drafts: not only the same
distribution but the same output, up to a device's rounding in batches of another shape. A draft is accepted with the
probability that the model gives it, as in rejection sampling, which can do no better for a deterministic draft.

A draft is computed only if it is worth its time (`StepCost`). Drafts come from the sequence itself
(`LookupSpeculation`) or from a draft model (`draft_speculation.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from inference_worker.engine.batch import ScheduledSequence
from inference_worker.engine.scheduling.prompt_lookup import PromptLookup
from inference_worker.engine.scheduling.stop_conditions import finish_reason
from inference_worker.engine.sequence import Sequence

MAX_DRAFTS = 16
"""Most draft tokens for one sequence in one step."""


@dataclass(frozen=True)
class StepCost:
    """The cost model of a step on a device: n rows (computed tokens), up to `cheap_rows`, take a time of `fixed` + n.

    Attributes:
        fixed: the time that does not depend on the rows (reading the weights), in units of one row's time.
        cheap_rows: the number of rows from which time is proportional to rows, so that a draft gains nothing.
    """

    fixed: float
    cheap_rows: float

    def is_worthwhile(self, probability: float, rows: int, tokens: float) -> bool:
        """Return whether one more draft token would raise the tokens that a step yields per unit of time.

        Args:
            probability: that the draft is accepted.
            rows: tokens that the step computes without the draft.
            tokens: new tokens that the step is expected to yield without the draft.
        """
        return rows < self.cheap_rows and probability * (self.fixed + rows) > tokens


FREE_ROWS = StepCost(fixed=math.inf, cheap_rows=math.inf)
"""A cost model in which rows cost nothing, so that every draft is computed."""


@dataclass(frozen=True, slots=True)
class DraftToken:
    """A draft token of the batch's entry `index`, and the probability that this and its earlier drafts are accepted."""

    index: int
    token: int
    probability: float


class Speculation(ABC):
    """The interface of an object that proposes the draft tokens of a scheduler's steps."""

    @abstractmethod
    def drafts(self, entries: list[ScheduledSequence], rows: int, budget: int) -> dict[int, list[int]]:
        """Return the draft tokens worth computing in a step, as lists by the index of the entry that they follow.

        Args:
            entries: the planned entries, of `rows` tokens in all; only those that decode get drafts.
            budget: how many more tokens the step may compute.
        """

    @abstractmethod
    def forget(self, sequence: Sequence) -> None:
        """Free what is kept for `sequence`, which has ended."""


class NoSpeculation(Speculation):
    """A speculation that drafts nothing, for when speculative decoding is disabled."""

    def drafts(self, entries: list[ScheduledSequence], rows: int, budget: int) -> dict[int, list[int]]:
        """Return no drafts."""
        del entries, rows, budget
        return {}

    def forget(self, sequence: Sequence) -> None:
        """Do nothing: nothing is kept for `sequence`."""


class LookupSpeculation(Speculation):
    """A speculation that takes draft tokens from one prompt lookup per sequence, the likeliest of all first.

    Those of sequences of the class `flex` come after those of all others.
    """

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost
        self._lookups: dict[Sequence, PromptLookup] = {}

    def drafts(self, entries: list[ScheduledSequence], rows: int, budget: int) -> dict[int, list[int]]:
        """Return the looked-up draft tokens that are worth computing in a step; see `Speculation.drafts`."""
        drafts: dict[int, list[int]] = {}
        if rows >= self._cost.cheap_rows:
            return drafts
        decoding = decoding_indexes(entries)
        drafted = (self._draft_tokens(index, entries[index].sequence) for index in decoding)
        predictions = merge(*drafted, key=lambda draft: (entries[draft.index].sequence.flex, -draft.probability))
        expected = float(len(decoding))
        for draft in islice(predictions, budget):
            if not self._cost.is_worthwhile(draft.probability, rows, expected):
                break
            drafts.setdefault(draft.index, []).append(draft.token)
            rows, expected = rows + 1, expected + draft.probability
        return drafts

    def _draft_tokens(self, index: int, sequence: Sequence) -> Iterator[DraftToken]:
        """Yield drafts of one sequence, the likeliest first, none beyond the sequence's end."""
        lookup = self._lookups.setdefault(sequence, PromptLookup())
        lookup.read(sequence.token_ids)
        most = min(MAX_DRAFTS, sequence.max_tokens - sequence.generated - 1)
        for token, probability in islice(lookup.predictions(sequence.token_ids), most):
            yield DraftToken(index, token, probability)
            if token in sequence.stop_ids:
                return

    def forget(self, sequence: Sequence) -> None:
        """Free the prompt lookup of `sequence`, which has ended."""
        self._lookups.pop(sequence, None)


def decoding_indexes(entries: list[ScheduledSequence]) -> list[int]:
    """Return the indexes of the planned entries that decode: they compute only their last token, and sample."""
    return [index for index, entry in enumerate(entries) if entry.count == 1 and entry.sample_count]


def append_accepted(sequence: Sequence, tokens: list[int], drafts: tuple[int, ...]) -> int:
    """Append a step's sampled tokens to `sequence`, up to the first that differs from its draft or ends the choice.

    Args:
        tokens: the sampled tokens, one more than `drafts`; empty if none was sampled.
        drafts: the draft tokens of the step.

    Returns:
        The number of tokens appended.
    """
    for count, token in enumerate(tokens, 1):
        sequence.append(token)
        if count > len(drafts) or token != drafts[count - 1] or finish_reason(sequence):
            return count
    return 0
