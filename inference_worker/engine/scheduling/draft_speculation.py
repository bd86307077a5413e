"""Drafts tokens with a draft model: a model of the same vocabulary that computes a step in a part of the time.

A draft is the token that the draft model itself would sample there, with the random number of the position
(`sampling/sampler.py`). So it is one certain token, verified as any other draft (`speculation.py`), and yet follows the
temperature: a draft model equal to the model drafts the very tokens that are sampled. ADR 0085.

The draft model has a KV cache of its own, with a block manager and a prefix cache. Each sequence that gets drafts has a
copy there, a sequence of the same tokens with its drafts after them. It first computes the tokens that are new since
its last drafts, then drafts a token per step of the draft model, as long as one more is worth its time. A copy's
blocks are freed when its sequence ends, or before if another needs them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from inference_worker.engine.batch import Batch, ScheduledSequence, StepResult
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.speculation import MAX_DRAFTS, Speculation, StepCost, decoding_indexes
from inference_worker.engine.sequence import Sequence

FIRST_PROBABILITY = 0.7
"""Estimated probability that the first draft of a sequence is accepted."""
LEARNING_RATE = 1 / 8


@dataclass(slots=True, eq=False)
class _DraftSequence:
    """A copy of a sequence in the draft model's cache.

    Attributes:
        sequence: the tokens of the sequence, `known` in number, then the drafts.
        probability: estimate that a draft is accepted if those before it are; 0: the draft model failed on the tokens.
        chance: probability that all of the drafts are accepted.
    """

    sequence: Sequence
    known: int
    probability: float = FIRST_PROBABILITY
    chance: float = 1.0

    @classmethod
    def of(cls, sequence: Sequence) -> _DraftSequence:
        """Return a copy of `sequence` without blocks; log probabilities, grammars and reasoning are left out."""
        copy = Sequence(
            sequence.request,
            sequence.choice,
            sequence.token_ids[:],
            sequence.prompt_length,
            msgspec.structs.replace(sequence.sampling, logprobs=None, prompt_logprobs=None),
            sequence.max_tokens,
            sequence.stop_ids,
            sequence.salt,
            bad_words=sequence.bad_words,
        )
        return cls(copy, len(copy.token_ids))

    @property
    def drafts(self) -> array[int]:
        """The draft tokens."""
        return self.sequence.token_ids[self.known :]

    @property
    def next_chance(self) -> float:
        """Probability that one more draft and all before it are accepted."""
        return self.chance * self.probability

    def follow(self, token_ids: array[int]) -> None:
        """Replace the drafts by the tokens of the sequence, `token_ids`, and learn which drafts were right."""
        right = self.known
        for draft, token in zip(self.drafts, token_ids[right:], strict=False):
            self.probability += ((draft == token) - self.probability) * LEARNING_RATE
            if draft != token:
                break
            right += 1
        # A new object, because samplers keep what they counted of a sequence's tokens.
        self.sequence = replace(self.sequence, token_ids=token_ids[:], computed=min(self.sequence.computed, right))
        self.known, self.chance = len(token_ids), 1.0


class DraftSpeculation(Speculation):
    """A speculation with drafts of a draft model for the sequences for which another speculation has none."""

    def __init__(
        self,
        execute: Callable[[Batch], StepResult],
        blocks: BlockManager,
        cost: StepCost,
        *,
        relative_cost: float,
        max_model_len: int,
        max_batched_tokens: int,
        lookup: Speculation,
    ) -> None:
        """Draft with a model.

        Args:
            execute: computes a batch with the draft model.
            blocks: the blocks of the draft model's cache.
            cost: the cost model of the steps of the model itself; its `fixed` is finite.
            relative_cost: time of a step of the draft model, in that of an equal step of the model.
            max_model_len: longest context of the draft model in tokens.
            max_batched_tokens: most tokens of a step of the draft model.
            lookup: has precedence, because its drafts take no time.
        """
        self._execute = execute
        self._blocks = blocks
        self._cost = cost
        self._relative_cost = relative_cost
        self._max_model_len = max_model_len
        self._max_batched_tokens = max_batched_tokens
        self._lookup = lookup
        self._draft_sequences: dict[Sequence, _DraftSequence] = {}
        """Draft sequences by their sequences, the one that was used least recently first."""

    def drafts(self, entries: list[ScheduledSequence], rows: int, budget: int) -> dict[int, list[int]]:
        """Return the draft tokens that are worth computing in a step; see `Speculation.drafts`."""
        drafts = self._lookup.drafts(entries, rows, budget)
        looked_up = sum(map(len, drafts.values()))
        rows, budget = rows + looked_up, budget - looked_up
        if rows >= self._cost.cheap_rows:
            return drafts
        decoding = decoding_indexes(entries)
        copies = {index: self._follow(entries[index].sequence) for index in decoding if index not in drafts}
        time, tokens = self._cost.fixed + rows, float(len(decoding) + looked_up)
        drafting = list(copies.values())
        while drafting := self._worthwhile(drafting, min(budget, self._free_rows(rows)), time, tokens):
            time += self._time(len(drafting))
            drafting = self._draft(drafting)
            rows, budget = rows + len(drafting), budget - len(drafting)
            tokens += sum(copy.chance for copy in drafting)
        return drafts | {index: copy.drafts.tolist() for index, copy in copies.items() if copy.drafts}

    def forget(self, sequence: Sequence) -> None:
        """Free the draft model's blocks of `sequence`, which has ended."""
        self._lookup.forget(sequence)
        if copy := self._draft_sequences.pop(sequence, None):
            self._blocks.release(copy.sequence)

    def _follow(self, sequence: Sequence) -> _DraftSequence:
        """Return the copy of a sequence, with its tokens, and with those computed that the prefix cache has."""
        copy = self._draft_sequences.pop(sequence, None) or _DraftSequence.of(sequence)
        self._draft_sequences[sequence] = copy
        copy.follow(sequence.token_ids)
        if copy.sequence.block_table:
            self._blocks.publish(copy.sequence)  # all that is computed is of known tokens now
        else:
            self._blocks.adopt(copy.sequence, self._blocks.find_prefix(copy.sequence))
        return copy

    def _free_rows(self, rows: int) -> int:
        return math.ceil(self._cost.cheap_rows - rows)

    def _time(self, count: int) -> float:
        """Return the time in which `count` sequences get one more draft each, and it is verified, in rows."""
        return self._relative_cost * (self._cost.fixed + count) + count

    def _worthwhile(self, copies: list[_DraftSequence], most: int, time: float, tokens: float) -> list[_DraftSequence]:
        """Return at most `most` copies for which one more draft raises the tokens that a step yields per time.

        `time` and `tokens` are those of the step without them.
        """
        likeliest = sorted(filter(self._may_draft, copies), key=lambda copy: -copy.next_chance)[: max(most, 0)]
        chosen = [each for each in likeliest if each.next_chance * time > tokens * (1 + self._relative_cost)]
        gain = sum(each.next_chance for each in chosen)
        return chosen if gain * time > tokens * self._time(len(chosen)) else []

    def _may_draft(self, copy: _DraftSequence) -> bool:
        """Return whether a draft may follow the tokens and drafts of a copy."""
        sequence = copy.sequence
        length = len(sequence.token_ids)
        return (
            length - copy.known < MAX_DRAFTS
            and length < self._max_model_len
            and sequence.generated < sequence.max_tokens - 1
            and sequence.token_ids[-1] not in sequence.stop_ids
        )

    def _draft(self, copies: list[_DraftSequence]) -> list[_DraftSequence]:
        """Compute the due tokens of the draft sequences with the draft model; return those that got a draft."""
        budget, entries, due = self._max_batched_tokens, [], []
        for copy in copies:
            sequence = copy.sequence
            count = min(len(sequence.token_ids) - sequence.computed, budget)
            if count and self._make_room(sequence, sequence.computed + count, copies):
                entries.append(ScheduledSequence(sequence, sequence.computed, count))
                due.append(copy)
                budget -= count
        result = self._execute(Batch(entries))
        drafted = []
        for copy, entry, tokens in zip(due, entries, result.token_ids, strict=True):
            if entry.sequence.request in result.failed:
                copy.probability = 0.0
                continue
            entry.sequence.computed += entry.count
            if tokens:
                copy.chance = copy.next_chance
                entry.sequence.token_ids.extend(tokens)
                drafted.append(copy)
        return drafted

    def _make_room(self, sequence: Sequence, end: int, kept: list[_DraftSequence]) -> bool:
        """Allocate blocks for the first `end` tokens, if need be those of older draft sequences than `kept`."""
        while not self._blocks.can_extend(sequence, end):
            others = (each for each in self._draft_sequences.values() if each.sequence.block_table and each not in kept)
            if (unused := next(others, None)) is None:
                return False
            self._blocks.release(unused.sequence)
        self._blocks.extend(sequence, end)
        return True
