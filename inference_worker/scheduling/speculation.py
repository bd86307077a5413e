"""Which guesses are computed along with a step, and which of them count afterwards.

A decoding sequence may compute, after its last token, guesses at the next ones (drafts). One step then draws the token
after each of them, and as many count as were guessed right, and one more. Speculative decoding: Leviathan et al. 2023,
Chen et al. 2023.

It is exact. The draw at a position depends only on the model's distribution there and on the number of (seed, choice,
position) (`sampling/sampler.py`). Every row is drawn from the distribution after all tokens before it, drafts and
penalties for them included, with the number of its own position; it counts only if these drafts are the tokens that
were drawn. So each token that counts is the very one that would have been drawn without drafts: not only the same
distribution but the same output, up to how a device rounds in batches of another shape. A draft is kept with the
probability that the model gives it, as by rejection sampling, which can do no better for a guess of one token.

A draft is computed only if it is worth its time (`StepCost`), the likeliest of all sequences first.

Plain Python; knows no blocks: the scheduler finds room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from inference_worker.batch import ScheduledSequence
from inference_worker.scheduling.prompt_lookup import PromptLookup
from inference_worker.scheduling.stopping import finish_reason
from inference_worker.sequence import Sequence

MOST_DRAFTS = 16
"""For one sequence in one step."""


@dataclass(frozen=True)
class StepCost:
    """What a step costs on a device: up to `cheap_rows` rows (computed tokens), n of them take a time of `fixed` + n.

    Attributes:
        fixed: the time that does not depend on the rows (reading the weights), as the number of rows that take as long.
        cheap_rows: beyond so many, time is proportional to the rows, and a draft takes as much as it can give.
    """

    fixed: float
    cheap_rows: float

    def pays(self, chance: float, rows: int, tokens: float) -> bool:
        """One row more, right by `chance`, gives more in its time than a step of `rows` that gives `tokens`."""
        return rows < self.cheap_rows and chance * (self.fixed + rows) > tokens


FREE = StepCost(fixed=math.inf, cheap_rows=math.inf)
"""Rows cost nothing: whatever can be guessed is computed."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A token of the sequence of entry `index`, and the chance that it and those before it are right."""

    index: int
    token: int
    chance: float


class Speculation:
    """Guesses for all sequences of a scheduler."""

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost
        self._lookups: dict[Sequence, PromptLookup] = {}

    def drafts(self, entries: list[ScheduledSequence], rows: int, budget: int) -> dict[int, list[int]]:
        """Drafts for planned entries, by their index.

        Args:
            entries: of `rows` tokens in all.
            budget: how many tokens more may be computed.
        """
        drafts: dict[int, list[int]] = {}
        if rows >= self._cost.cheap_rows:
            return drafts
        decoding = [index for index, entry in enumerate(entries) if entry.count == 1 and entry.draws]
        guesses = merge(*(self._guesses(index, entries[index].sequence) for index in decoding), key=_unlikelihood)
        expected = float(len(decoding))
        for guess in islice(guesses, budget):
            if not self._cost.pays(guess.chance, rows, expected):
                break
            drafts.setdefault(guess.index, []).append(guess.token)
            rows, expected = rows + 1, expected + guess.chance
        return drafts

    def _guesses(self, index: int, sequence: Sequence) -> Iterator[Guess]:
        """The likeliest first; none that would be beyond the end of the sequence."""
        lookup = self._lookups.setdefault(sequence, PromptLookup())
        lookup.read(sequence.token_ids)
        most = min(MOST_DRAFTS, sequence.max_tokens - sequence.generated - 1)
        for token, chance in islice(lookup.guesses(sequence.token_ids), most):
            yield Guess(index, token, chance)
            if token in sequence.stop_ids:
                return

    def forget(self, sequence: Sequence) -> None:
        """A sequence has ended."""
        self._lookups.pop(sequence, None)


class NoSpeculation(Speculation):
    """Speculation switched off: guesses nothing."""

    def __init__(self) -> None:
        super().__init__(StepCost(fixed=0, cheap_rows=0))


def append_drawn(sequence: Sequence, tokens: list[int], drafts: tuple[int, ...]) -> int:
    """Append the drawn tokens that count, and return how many: up to the first that is not as drafted or is the last.

    Args:
        tokens: one more than `drafts`; empty if nothing was drawn.
    """
    for count, token in enumerate(tokens, 1):
        sequence.append(token)
        if count > len(drafts) or token != drafts[count - 1] or finish_reason(sequence):
            return count
    return 0


def _unlikelihood(guess: Guess) -> float:
    return -guess.chance
