"""Runs work that gateways share by leases in the store; a killed gateway's work goes to others.

Organisations take turns: one with much work, or with work that does not end, leaves a place for the others.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection
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
        """Set when there may be new work to claim."""
        self._freed = asyncio.Event()
        """Set when there is a free place."""
        self._places = places
        self._running: dict[asyncio.Task[None], Work] = {}
        self._served: set[str] = set()
        """Organisations that had a turn in this round."""

    async def run(self) -> None:
        """Claim and run work until cancelled; then cancel what runs, which gives its leases back."""
        try:
            while True:
                if self._arrived.is_set():
                    self._arrived.clear()
                    self._look_again()
                self._freed.clear()
                with suppress(StoreUnavailable):
                    while len(self._running) < self._places and (work := await self._next()) is not None:
                        task = asyncio.create_task(self._perform_safely(work))
                        self._running[task] = work
                        task.add_done_callback(self._ended)
                await _any_set(self._arrived, self._freed, seconds=CLAIM_INTERVAL)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _look_again(self) -> None:
        """Forget what is known of waiting work, because new work has arrived; a subclass may know some."""

    @abstractmethod
    async def _claim(self, passed_over: Collection[str]) -> Work | None:
        """Return work that is leased to this gateway from now on, not of the organisations `passed_over`.

        `None`: there is none.
        """

    @abstractmethod
    async def _perform(self, work: Work) -> None:
        """Do the work; end its lease if that fails."""

    async def _next(self) -> Work | None:
        """Claim work of an organisation whose turn it is, else of one within its share, else of any with a place.

        The share is half of the places; one place is free of each organisation's work, so that another need not wait.
        """
        places = Counter(each.organisation for each in self._running.values())
        above_share = {each for each, count in places.items() if count >= self._places // 2}
        full = {each for each, count in places.items() if count >= self._places - 1}
        for passed_over in dict.fromkeys(map(frozenset, (self._served | above_share, above_share, full))):
            if (work := await self._claim(passed_over)) is not None:
                self._served.add(work.organisation)
                return work
            self._served = set()
        return None

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
        self._freed.set()


async def _any_set(*events: asyncio.Event, seconds: float) -> None:
    """Wait until one of the events is set, for at most some seconds."""
    waits = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
