"""Sweeper of vector stores: deletes expired ones and expired files, and finishes interrupted deletions and changes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.vector_stores.vector_stores import VectorStores

BATCH = 500
"""Records that are looked up at once."""
INTERVAL = 30.0
"""Mean seconds between two sweeps, so that what a killed process was deleting is gone within a minute."""
TOMBSTONE_TIME = 7 * 24 * 3600.0
"""Seconds for which tombstones of files are kept; an index that is older is built anew."""

_log = structlog.get_logger(__name__)


class VectorStoreSweeper:
    """Sweeps vector stores every `INTERVAL`. Several sweepers, one in each gateway, may run."""

    def __init__(self, stores: VectorStores, *, clock: Callable[[], float] = time.time) -> None:
        self._stores = stores
        self._clock = clock

    async def run(self) -> None:
        """Sweep at intervals until cancelled; a failure is logged, and the next sweep repeats it."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                _log.warning("a sweep of vector stores ended early", reason=str(error))
            # Gateways that start together do not sweep together.
            await asyncio.sleep(INTERVAL * secrets.SystemRandom().uniform(0.5, 1.5))

    async def sweep(self) -> None:
        """Delete expired vector stores and files, and finish interrupted deletions and changes of files.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        records, now = self._stores.records, self._clock()
        for store in await records.expired(now, BATCH):
            await records.hide(store.id, now)
            await self._stores.remove(store)
        for file in await records.expired_files(now, BATCH):
            await self._stores.erase(file)
        await records.number(await records.unnumbered(BATCH))
        for file in await records.unreleased(BATCH):
            await self._stores.release(file)
        while await self._stores.passages.erase_unkept(BATCH) == BATCH:
            pass
        while await records.forget(now - TOMBSTONE_TIME, BATCH) == BATCH:
            pass
