"""Runs work that gateways share by leases in the store; a killed gateway's work goes to others.

Organisations take turns: one with much work, or with work that does not end, leaves a place for the others, and where
several fill all places, work that has had a turn gives way to that of an organisation without a place.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
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


@dataclass
class _Turn(Generic[Work]):
    """Work that has a place."""

    work: Work
    began: float
    """Time (monotonic) at which the work got its place."""
    gives_way: bool = False


class LeasedWorkRunner(ABC, Generic[Work]):
    """Claims and runs work of one kind in one gateway, at most `places` pieces at a time."""

    def __init__(self, arrived: asyncio.Event, places: int, turn: float = math.inf) -> None:
        """`turn`: seconds after which work gives way to that of an organisation without a place; infinite: never."""
        self._turn = turn
        self._arrived = arrived
        """Set when there may be new work to claim."""
        self._freed = asyncio.Event()
        """Set when there is a free place."""
        self._places = places
        self._running: dict[asyncio.Task[None], _Turn[Work]] = {}
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
                        self._begin(work)
                    await self._make_way()
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

    def _give_way(self, work: Work) -> None:
        """Have running work stop soon and give its lease back; a subclass with a finite `turn` does so."""

    def _begin(self, work: Work) -> None:
        self._served.add(work.organisation)
        task = asyncio.create_task(self._perform_safely(work))
        self._running[task] = _Turn(work, time.monotonic())
        task.add_done_callback(self._ended)

    async def _make_way(self) -> None:
        """Where all places are taken, begin with work of an organisation that has none, if other work had its turn.

        That of the organisation with the most places gives way, the one that has run for the longest. Until it has
        stopped, one piece of work more than there are places runs.
        """
        turns, now = list(self._running.values()), time.monotonic()
        had = [each for each in turns if now - each.began >= self._turn]
        if len(turns) < self._places or not had or any(each.gives_way for each in turns):
            return
        places = Counter(each.work.organisation for each in turns)
        running = frozenset(places)
        work = await self._claim(running | self._served)
        if work is None:
            self._served = set()
            work = await self._claim(running)
        if work is not None:
            longest = max(had, key=lambda each: (places[each.work.organisation], now - each.began))
            longest.gives_way = True
            self._give_way(longest.work)
            self._begin(work)

    async def _next(self) -> Work | None:
        """Claim work of an organisation whose turn it is, else of one within its share, else of any with a place.

        The share is half of the places; one place is free of each organisation's work, so that another need not wait.
        """
        places = Counter(each.work.organisation for each in self._running.values())
        above_share = {each for each, count in places.items() if count >= self._places // 2}
        full = {each for each, count in places.items() if count >= self._places - 1}
        for passed_over in dict.fromkeys(map(frozenset, (self._served | above_share, above_share, full))):
            if (work := await self._claim(passed_over)) is not None:
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
