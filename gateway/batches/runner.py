"""Claims open batches for this gateway and runs them, a few at a time; a killed gateway's batches go to others."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from auth_billing.errors import StoreUnavailable
from gateway.batches.batch_run import BatchRun, RunContext
from gateway.batches.results import LeaseLost
from stored_objects.documents.batches import Batch, BatchState
from stored_objects.errors import BlobsUnavailable

MAX_BATCHES = 4
"""Batches that one gateway runs at the same time."""
CLAIM_INTERVAL = 2.0
"""Seconds between two looks for batches without a live lease."""
RETRY_DELAY = 10.0
"""Seconds until a batch that an unexpected error has interrupted is given back."""

_log = structlog.get_logger(__name__)


class BatchRunner:
    """Runs batches of all projects in one gateway."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._batches = context.gateway.documents.batches
        self._runs: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Claim and run batches until cancelled; then release their leases."""
        woken = self._context.gateway.batch_created
        try:
            while True:
                woken.clear()
                with suppress(StoreUnavailable):
                    await self._claim_all()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLAIM_INTERVAL):
                        await woken.wait()
        finally:
            for task in self._runs:
                task.cancel()
            await asyncio.gather(*self._runs, return_exceptions=True)

    async def _claim_all(self) -> None:
        while len(self._runs) < MAX_BATCHES:
            now = self._context.clock()
            batch = await self._batches.claim(self._context.runner, now, now + self._context.lease)
            if batch is None:
                return
            if BatchState.IN_PROGRESS in batch.times:  # an earlier run has begun its lines
                self._context.gateway.metrics.takeovers.labels("batch", "continued").inc()
            task = asyncio.create_task(self._run(batch))
            self._runs.add(task)
            task.add_done_callback(self._runs.discard)

    async def _run(self, batch: Batch) -> None:
        _log.info("running a batch", batch=batch.id, state=batch.state.value, done=batch.progress.done_to)
        try:
            await BatchRun(self._context, batch).run()
        except LeaseLost:
            _log.warning("another gateway runs this batch", batch=batch.id)
        except (StoreUnavailable, BlobsUnavailable) as error:
            _log.warning("a batch is interrupted", batch=batch.id, reason=str(error))
            await asyncio.sleep(RETRY_DELAY)
        except Exception:  # noqa: BLE001 - one broken batch must not end the gateway
            _log.exception("a batch was interrupted by an error", batch=batch.id)
            await asyncio.sleep(RETRY_DELAY)
