"""Counts the scheduler's steps, tokens, preemptions and cache hits since start-up, reported as `EngineLoad`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from inference_worker.engine.batch import Batch
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import EngineLoad


class Counters(EngineLoad):
    """The scheduler's running totals since start-up: an `EngineLoad` whose counters grow and whose gauges stay 0."""

    def count_step(self, batch: Batch, steps: int = 1) -> None:
        """Add the steps and the computed tokens of `batch`, which ran `steps` steps, to the scheduler's totals."""
        self.steps += steps
        self.step_tokens += steps * sum(entry.count for entry in batch.entries)

    def count_admission(self, sequence: Sequence) -> None:
        """Add a sequence's prompt tokens and prefix cache hits to the totals, and mark the sequence as admitted.

        Call it on the sequence's first admission only, not after a preemption.
        """
        sequence.admitted = True
        sequence.cached_tokens = min(sequence.computed, sequence.prompt_length)
        self.prompt_tokens += sequence.prompt_length
        self.prefix_cache_queries += sequence.prompt_length
        self.prefix_cache_hits += sequence.cached_tokens

    def count_output(self, drafted: int, generated: int) -> None:
        """Add one sequence's outcome of a step to the totals.

        Args:
            drafted: number of draft tokens that were computed.
            generated: number of tokens that were appended.
        """
        self.generation_tokens += generated
        if drafted:
            self.draft_tokens += drafted
            self.accepted_tokens += generated - 1

    def to_load(self, **gauges: int) -> EngineLoad:
        """Return the scheduler's totals as an `EngineLoad` message, with `gauges` as its other fields."""
        return msgspec.structs.replace(self, **gauges)


def used_token_slots(running: Iterable[Sequence], blocks: BlockManager) -> int:
    """Return how many KV cache slots hold tokens: the slots of used blocks, less the unfilled ends of last blocks."""
    empty = {
        sequence.block_table[-1]: len(sequence.block_table) * blocks.block_size - sequence.computed
        for sequence in running
        if sequence.block_table
    }
    return blocks.used * blocks.block_size - sum(empty.values())
