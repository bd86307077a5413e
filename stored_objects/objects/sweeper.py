"""Sweeper of stored objects: deletes expired objects, and the blobs and documents that interrupted writes left.

Several sweepers may run at the same time, one in each gateway: each step of a deletion can be repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.errors import BlobNotFound, BlobsUnavailable
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectState, StoredObject

BATCH = 500
"""Objects that are looked up at once."""
INTERVAL = 60.0
"""Seconds between two sweeps of expired objects."""
ORPHAN_INTERVAL = 6 * 3600.0
"""Seconds between two searches for blobs without a document."""
ORPHAN_AGE = 24 * 3600.0
"""Seconds after which a blob without a document is deleted; a document is always written before its blob."""

_REASONS = {ObjectState.READY: "expired"}
_log = structlog.get_logger(__name__)


class ObjectSweeper:
    """Deletes expired objects every `INTERVAL`, and blobs without a document every `ORPHAN_INTERVAL` seconds."""

    def __init__(self, objects: StoredObjects, *, clock: Callable[[], float] = time.time) -> None:
        self._objects = objects
        self._clock = clock

    async def run(self) -> None:
        """Sweep expired objects and orphaned blobs at intervals until cancelled.

        A failure is logged and counted, and retried.
        """
        orphans_at = time.monotonic() + ORPHAN_INTERVAL
        while True:
            try:
                await self.sweep()
                if time.monotonic() >= orphans_at:
                    orphans_at = time.monotonic() + ORPHAN_INTERVAL
                    await self.sweep_orphans()
            except (StoreUnavailable, BlobsUnavailable) as error:
                self._failed("a sweep of stored objects ended early", error)
            await asyncio.sleep(INTERVAL)

    async def sweep(self) -> int:
        """Delete all expired objects and all whose write or deletion was interrupted; return the number deleted.

        Raises:
            StoreUnavailable: the expired objects can't be looked up.
        """
        total = 0
        while True:
            batch = await self._objects.documents.expired(self._clock(), BATCH)
            removed = sum([await self._remove(each) for each in batch])
            total += removed
            if len(batch) < BATCH or not removed:
                return total

    async def sweep_orphans(self) -> int:
        """Delete the blobs that have no document and are older than `ORPHAN_AGE`; return the number deleted.

        Raises:
            StoreUnavailable, BlobsUnavailable: the search can't go on.
        """
        total, blobs = 0, self._objects.blobs
        for folder in await blobs.folders():
            ids = await blobs.list_folder(folder)
            known = await self._objects.documents.known(ids)
            for orphan in (each for each in ids if each not in known):
                total += await self._remove_orphan(orphan)
        return total

    async def _remove(self, stored: StoredObject) -> bool:
        try:
            removed = await self._objects.remove(stored)
        except (StoreUnavailable, BlobsUnavailable) as error:
            self._failed("a stored object was not deleted yet", error)
            return False
        if removed:
            self._objects.metrics.swept.labels(_REASONS.get(stored.state, stored.state.value)).inc()
        return removed

    async def _remove_orphan(self, blob: str) -> bool:
        try:
            if await self._objects.blobs.modified(blob) > self._clock() - ORPHAN_AGE:
                return False
        except BlobNotFound:
            return False
        await self._objects.blobs.delete(blob)
        self._objects.metrics.swept.labels("orphan").inc()
        return True

    def _failed(self, message: str, error: Exception) -> None:
        self._objects.metrics.sweep_failures.inc()
        _log.warning(message, reason=str(error))
