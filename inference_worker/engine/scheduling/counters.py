"""The scheduler's counters and gauges, reported as `EngineLoad`."""

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
        """Count the steps and computed tokens of a batch that ran `steps` steps."""
        self.steps += steps
        self.step_tokens += steps * sum(entry.count for entry in batch.entries)

    def count_admission(self, sequence: Sequence) -> None:
        """Count a sequence's prompt tokens and prefix cache hits on its first admission, and mark it as admitted."""
        sequence.admitted = True
        sequence.cached_tokens = min(sequence.computed, sequence.prompt_length)
        self.prompt_tokens += sequence.prompt_length
        self.prefix_cache_queries += sequence.prompt_length
        self.prefix_cache_hits += sequence.cached_tokens

    def count_output(self, drafted: int, generated: int) -> None:
        """Count one sequence's outcome of a step: `drafted` draft tokens computed, `generated` tokens appended."""
        self.generation_tokens += generated
        if drafted:
            self.draft_tokens += drafted
            self.accepted_tokens += generated - 1

    def to_load(self, **gauges: int) -> EngineLoad:
        """Return a copy of these counters with `gauges`, the other fields of `EngineLoad`."""
        return msgspec.structs.replace(self, **gauges)


def used_token_slots(running: Iterable[Sequence], blocks: BlockManager) -> int:
    """Return how many KV cache token slots hold tokens: those of used blocks, less the unfilled ends."""
    empty = {
        sequence.block_table[-1]: len(sequence.block_table) * blocks.block_size - sequence.computed
        for sequence in running
        if sequence.block_table
    }
    return blocks.used * blocks.block_size - sum(empty.values())
