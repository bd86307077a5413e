"""Isolates faulty requests of an engine step: a batch that fails is halved and retried until only they are left out.

Computing an entry again is harmless (`ModelRunner.compute`), so the other requests lose nothing but time. When memory
runs out, halves need less of it, down to single tokens of one prompt, so a step shrinks before a request fails. Errors
of the device itself are raised: no single request causes them, and the process must be replaced.
"""

from __future__ import annotations

import structlog
import torch

from inference_worker.engine.batch import Batch, ScheduledSequence, StepResult
from inference_worker.engine.execution.model_runner import ModelRunner
from inference_worker.errors import NativeError

log = structlog.get_logger(__name__)


class IsolatingRunner:
    """A `Runner` that halves a batch on which a `ModelRunner` fails, until only the faulty requests are left out."""

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner

    def execute(self, batch: Batch) -> StepResult:
        """Compute one step of `batch` and return its result.

        If computing fails, the batch is halved and retried; the result lists the requests that can't be computed as
        `failed`.
        """
        # Copy blocks once, outside of the retries: a failed try may have written to a source block.
        self.runner.copy_blocks(batch.copies)
        return self._compute(batch.entries) if batch.entries else StepResult()

    def _compute(self, entries: list[ScheduledSequence]) -> StepResult:
        try:
            return self.runner.compute(entries)
        except torch.AcceleratorError:
            raise
        except Exception as error:
            out_of_memory = is_out_of_memory(error)
            if len(entries) <= 1 and not (out_of_memory and _can_be_halved(entries[0])):
                log.exception("request failed in the model", request=entries[0].sequence.request)
                return StepResult([[]], [None], frozenset({entries[0].sequence.request}))
            log.warning("batch failed, halving it", sequences=len(entries), error=repr(error))
        if out_of_memory:  # outside of `except`, because the error's traceback keeps tensors alive
            torch.cuda.empty_cache()  # does nothing without CUDA
        if len(entries) == 1:
            return self._compute_in_two(entries[0])
        middle = len(entries) // 2
        return self._compute(entries[:middle]) + self._compute(entries[middle:])

    def _compute_in_two(self, entry: ScheduledSequence) -> StepResult:
        """Compute the first half of an entry's tokens, then the rest, whose last states are sampled from."""
        half = (entry.count - len(entry.drafts)) // 2
        first = self._compute([ScheduledSequence(entry.sequence, entry.start, half)])
        if first.failed:
            return first
        return self._compute([ScheduledSequence(entry.sequence, entry.start + half, entry.count - half, entry.drafts)])


def is_out_of_memory(error: Exception) -> bool:
    """Return whether `error` means that an allocation failed, on a CPU or on a GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError | NativeError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)  # of PyTorch's allocator on the CPU


def _can_be_halved(entry: ScheduledSequence) -> bool:
    """Return whether an entry has two or more known tokens, and no prompt log probabilities that must come at once."""
    return entry.count - len(entry.drafts) >= 2 and not entry.scored
