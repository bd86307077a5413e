"""Runs work that gateways share by leases in the store; a killed gateway's work goes to others."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Generic, TypeVar

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.errors import BlobsUnavailable
from stored_objects.project_documents.batches import Batch
from stored_objects.vector_stores.records import VectorStoreFile

CLAIM_INTERVAL = 2.0
"""Seconds between two looks for work without a live lease."""
RETRY_DELAY = 10.0
"""Seconds for which work that an error has interrupted keeps its place."""

Work = TypeVar("Work", Batch, VectorStoreFile)
_log = structlog.get_logger(__name__)


class LeasedWorkRunner(ABC, Generic[Work]):
    """Claims and runs work of one kind in one gateway, at most `places` pieces at a time."""

    def __init__(self, arrived: asyncio.Event, places: int) -> None:
        self._arrived = arrived
        """Set when there may be work to claim."""
        self._places = places
        self._running: dict[asyncio.Task[None], Work] = {}

    async def run(self) -> None:
        """Claim and run work until cancelled; then cancel what runs, which gives its leases back."""
        try:
            while True:
                self._arrived.clear()
                with suppress(StoreUnavailable):
                    while len(self._running) < self._places and (work := await self._claim()) is not None:
                        task = asyncio.create_task(self._perform_safely(work))
                        self._running[task] = work
                        task.add_done_callback(self._ended)
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLAIM_INTERVAL):
                        await self._arrived.wait()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    @abstractmethod
    async def _claim(self) -> Work | None:
        """Return work that is leased to this gateway from now on; `None` if there is none."""

    @abstractmethod
    async def _perform(self, work: Work) -> None:
        """Do the work; end its lease if that fails."""

    async def _perform_safely(self, work: Work) -> None:
        _log.info("leased work begins", work=work.id)
        try:
            await self._perform(work)
        except (StoreUnavailable, BlobsUnavailable) as error:
            _log.warning("leased work is interrupted", work=work.id, reason=str(error))
            await asyncio.sleep(RETRY_DELAY)
        except Exception:  # noqa: BLE001 - broken work must not end the gateway
            _log.exception("leased work was interrupted by an error", work=work.id)
            await asyncio.sleep(RETRY_DELAY)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._arrived.set()  # there is a free place
