"""Runs open batches of all projects in one gateway, a few at a time."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from gateway.batches.batch_run import BatchRun, RunContext
from gateway.batches.results import LeaseLost
from gateway.leased_work import LeasedWorkRunner
from stored_objects.project_documents.batches import Batch, BatchState

MAX_BATCHES = 5
"""Batches that one gateway runs at the same time; all but one of them may be of one organisation."""
TURN = 300.0
"""Seconds after which a batch gives way to that of an organisation of which this gateway runs none."""

_log = structlog.get_logger(__name__)


class BatchRunner(LeasedWorkRunner[Batch]):
    """Runs batches of all projects in one gateway."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context.gateway.batch_created, MAX_BATCHES, TURN)
        self._context = context
        self._runs: dict[str, BatchRun] = {}
        """Runs by the ids of their batches."""

    async def _claim(self, passed_over: Collection[str]) -> Batch | None:
        now = self._context.clock()
        batches = self._context.gateway.documents.batches
        batch = await batches.claim(self._context.runner, now, now + self._context.lease, passed_over)
        if batch is not None and BatchState.IN_PROGRESS in batch.times:  # an earlier run has begun its lines
            self._context.gateway.metrics.takeovers.labels("batch", "continued").inc()
        return batch

    async def _perform(self, work: Batch) -> None:
        run = self._runs[work.id] = BatchRun(self._context, work)
        try:
            await run.run()
        except LeaseLost:
            _log.warning("another gateway runs this batch", batch=work.id)
        finally:
            del self._runs[work.id]

    def _give_way(self, work: Batch) -> None:
        if (run := self._runs.get(work.id)) is not None:
            run.give_way()
