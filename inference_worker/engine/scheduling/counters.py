"""The scheduler's counters and gauges, reported as `EngineLoad`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from inference_worker.engine.batch import Batch
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import EngineLoad


@dataclass(slots=True)
class Counters:
    """The scheduler's running totals since start-up, under the names that `EngineLoad` reports."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    step_tokens: int = 0

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
        """Count the tokens that one sequence got from a step, and the drafts among them."""
        self.generation_tokens += generated
        if drafted:
            self.draft_tokens += drafted
            self.accepted_tokens += generated - 1

    def to_load(self, **gauges: int) -> EngineLoad:
        """Return the `EngineLoad` report of these counters and of `gauges`, its other fields."""
        return EngineLoad(**asdict(self), **gauges)


def used_token_slots(running: Iterable[Sequence], blocks: BlockManager) -> int:
    """Return how many KV cache token slots hold tokens: those of used blocks, less the unfilled ends."""
    empty = {
        sequence.block_table[-1]: len(sequence.block_table) * blocks.block_size - sequence.computed
        for sequence in running
        if sequence.block_table
    }
    return blocks.used * blocks.block_size - sum(empty.values())
