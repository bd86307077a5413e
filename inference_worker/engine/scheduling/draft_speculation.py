"""Drafts tokens with a draft model: a model of the same vocabulary that computes a step in a part of the time.

A draft is the token that the draft model itself would sample there, with the random number of the position
(`sampling/sampler.py`). So it is one certain token, verified as any other draft (`speculation.py`), and yet follows the
temperature: a draft model equal to the model drafts the very tokens that are sampled. ADR 0085.

The draft model has a KV cache of its own, with a block manager and a prefix cache. Each sequence that gets drafts has a
copy there, a sequence of the same tokens with its drafts after them. It first catches up (computes the tokens that are
new since its last drafts, at first the prompt), then drafts a token per step of the draft model, as long as one more is
worth its time. A copy's blocks are freed when its sequence ends, or before if another needs them.

One more draft for each of m sequences takes, in rows (`StepCost`), the time

    r * (f + m) + m + the sum of r * (c + f * s) / n

where r is the cost of the draft model relative to the model, f the fixed time of a step, and c the tokens of a sequence
to catch up in s steps of their own, which is spread over the n steps that are left of its answer:
n = (tokens left) / (1 + probability of a draft), with one draft per step. It is worthwhile if it raises the tokens per
time. So a short answer to a long prompt is not drafted.

Sequences of the service class `flex` are not drafted: steps of the draft model can't be interrupted for others, and
their blocks are needed for these.
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
EXPECTED_TOKENS = 256
"""Most tokens that an answer is expected to go on for; its `max_tokens` may be all of the context."""


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

    @property
    def steps_left(self) -> float:
        """Expected number of the model's steps to the end of the answer, with one draft in each."""
        left = min(self.sequence.max_tokens - self.sequence.generated, EXPECTED_TOKENS)
        return left / (1 + self.probability)

    @property
    def missing(self) -> int:
        """Number of tokens before the last one that the draft model has not computed."""
        return len(self.sequence.token_ids) - 1 - self.sequence.computed

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
        left = {index: entries[index].sequence for index in decoding if index not in drafts}
        copies = {index: self._follow(sequence) for index, sequence in left.items() if not sequence.flex}
        time, tokens = self._cost.fixed + rows, float(len(decoding) + looked_up)
        drafting = list(copies.values())
        while drafting := self._worthwhile(drafting, min(budget, self._free_rows(rows)), time, tokens):
            time += self._time(drafting)
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

    def _time(self, copies: list[_DraftSequence]) -> float:
        """Return the time in which `copies` get one more draft each, and it is verified, in rows."""
        return self._relative_cost * self._cost.fixed + sum(map(self._time_of, copies))

    def _time_of(self, copy: _DraftSequence) -> float:
        """Return the part of `_time` that one copy adds to it: its draft, and a share of what it has to catch up."""
        steps = copy.missing // self._max_batched_tokens
        catch_up = (copy.missing + self._cost.fixed * steps) / copy.steps_left
        return 1 + self._relative_cost * (1 + catch_up)

    def _worthwhile(self, copies: list[_DraftSequence], most: int, time: float, tokens: float) -> list[_DraftSequence]:
        """Return at most `most` copies for which one more draft raises the tokens that a step yields per time.

        `time` and `tokens` are those of the step without them.
        """
        likeliest = sorted(filter(self._may_draft, copies), key=lambda copy: -copy.next_chance)[: max(most, 0)]
        chosen = [each for each in likeliest if each.next_chance * time > tokens * self._time_of(each)]
        gain = sum(each.next_chance for each in chosen)
        return chosen if gain * time > tokens * self._time(chosen) else []

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
