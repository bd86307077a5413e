"""Keeps one request's fault from the others: a batch that can't be computed is halved until the guilty stand alone.

Computing an entry again is harmless (`ModelRunner.compute`), so the innocent lose nothing but time. Where memory is
short, halves need less of it, down to single tokens of one prompt: a step shrinks before anybody fails. Faults of the
device itself pass through: there is nobody to blame, and the process must be replaced.
"""

from __future__ import annotations

import structlog
import torch

from inference_worker.batch import Batch, ScheduledSequence, StepResult
from inference_worker.errors import NativeError
from inference_worker.execution.model_runner import ModelRunner

log = structlog.get_logger(__name__)


class IsolatingRunner:
    """A `Runner` around a `ModelRunner`."""

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner

    def execute(self, batch: Batch) -> StepResult:
        """Compute one step; requests that can't be computed are named in `StepResult.failed`."""
        # Once and outside of the retries: after a first attempt a source may have been written to.
        self.runner.copy_blocks(batch.copies)
        return self._compute(batch.entries) if batch.entries else StepResult()

    def _compute(self, entries: list[ScheduledSequence]) -> StepResult:
        try:
            return self.runner.compute(entries)
        except torch.AcceleratorError:
            raise
        except Exception as error:
            short = is_out_of_memory(error)
            if len(entries) <= 1 and not (short and _may_be_halved(entries[0])):
                log.exception("request failed in the model", request=entries[0].sequence.request)
                return StepResult([[]], [None], frozenset({entries[0].sequence.request}))
            log.warning("batch failed, halving it", sequences=len(entries), error=repr(error))
        if short:  # not before: the error's traceback holds on to tensors
            torch.cuda.empty_cache()  # nothing where there is no such device
        if len(entries) == 1:
            return self._compute_in_two(entries[0])
        middle = len(entries) // 2
        return self._compute(entries[:middle]) + self._compute(entries[middle:])

    def _compute_in_two(self, entry: ScheduledSequence) -> StepResult:
        """Compute the first half of an entry's tokens, then the rest, from which the next ones are drawn."""
        half = (entry.count - len(entry.drafts)) // 2
        first = self._compute([ScheduledSequence(entry.sequence, entry.start, half)])
        if first.failed:
            return first
        return self._compute([ScheduledSequence(entry.sequence, entry.start + half, entry.count - half, entry.drafts)])


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on whatever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError | NativeError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)  # of PyTorch's allocator on the CPU


def _may_be_halved(entry: ScheduledSequence) -> bool:
    """There are two known tokens, and their log probabilities are not told with the step."""
    return entry.count - len(entry.drafts) >= 2 and not entry.scored
