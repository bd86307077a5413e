"""Keeps one request's fault from the others: a batch that can't be computed is halved until the guilty stand alone.

Computing an entry again is harmless (`ModelRunner.compute`), so the innocent lose nothing but time. Faults of the
device itself pass through: there is nobody to blame, and the process must be replaced.
"""

from __future__ import annotations

import structlog
import torch

from inference_worker.batch import Batch, ScheduledSequence, StepResult
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
            if len(entries) <= 1:
                log.exception("request failed in the model", request=entries[0].sequence.request)
                return StepResult([[]], [None], frozenset({entries[0].sequence.request}))
            log.warning("batch failed, halving it", sequences=len(entries), error=repr(error))
        middle = len(entries) // 2
        return self._compute(entries[:middle]) + self._compute(entries[middle:])
