"""Counts project documents in the storage quota of their project, by blocks that a process reserves in advance.

A document is counted before it is written, and what it took is given back after it was erased. A process takes the
bytes from a block that it has counted in the store, so that most documents cost no write of their own, and none needs
a sum over all documents, for which the embedded store reads each of them. What a killed process had reserved stays
counted until the count is corrected (`stored_objects/objects/quota.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.quota import StorageQuotas
from stored_objects.project_documents.records import ProjectOwner

BLOCK = 2**20
"""Bytes that a process reserves in advance for a project, at least."""
REFUSAL_TIME = 5.0
"""Seconds for which a full project is refused without asking the store again."""

_log = structlog.get_logger(__name__)


class DocumentQuota:
    """Counts the documents of projects for one process."""

    def __init__(self, quotas: StorageQuotas, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.quotas = quotas
        self._clock = clock
        self._reserved: dict[ProjectOwner, int] = {}
        """Bytes of each project that are counted in the store and not used; negative: used and not counted."""
        self._growing: set[ProjectOwner] = set()
        """Projects for which a block is being reserved."""
        self._refused: dict[ProjectOwner, tuple[float, StorageQuotaExceeded]] = {}
        """Time until which each full project is refused, and why."""

    async def reserve(self, owner: ProjectOwner, size: int) -> None:
        """Count `size` more bytes for documents of `owner`, before they are written.

        Raises:
            StorageQuotaExceeded: the project or its organisation would store more than allowed; nothing is counted.
            StoreUnavailable: the store does not answer.
        """
        reserved = self._reserved.pop(owner, 0)
        if size > reserved:
            try:
                self._add(owner, await self._grow(owner, size - reserved, max(BLOCK, size)))
            except BaseException:
                self._add(owner, reserved)
                raise
        else:
            self._add(owner, reserved - size)

    async def release(self, owner: ProjectOwner, size: int) -> None:
        """Give back `size` bytes after documents of `owner` were erased; negative: count more, beyond the limit too.

        Does not raise: what the store does not take stays counted, or is counted with the next change.
        """
        self._refused.pop(owner, None)
        reserved = self._reserved.pop(owner, 0) + size
        if 0 <= reserved <= 2 * BLOCK:
            self._add(owner, reserved)
            return
        surplus = reserved - BLOCK
        try:
            await self.quotas.shrink(owner.quota_owner, surplus)
        except StoreUnavailable as error:
            _log.warning("bytes of project documents not counted yet", project=owner.project, reason=str(error))
            self._add(owner, min(surplus, 0))
        self._add(owner, BLOCK)

    async def close(self) -> None:
        """Give back at shutdown what is reserved and not used."""
        try:
            while self._reserved:
                owner, reserved = self._reserved.popitem()
                await self.quotas.shrink(owner.quota_owner, reserved)
        except StoreUnavailable as error:
            _log.warning("reserved bytes of project documents stay counted", reason=str(error))

    def _add(self, owner: ProjectOwner, reserved: int) -> None:
        self._reserved[owner] = self._reserved.get(owner, 0) + reserved

    async def _grow(self, owner: ProjectOwner, needed: int, block: int) -> int:
        """Count `needed` bytes in the store, and `block` more if the quota permits it; return how many more."""
        until, refusal = self._refused.get(owner, (0.0, None))
        if refusal is not None and self._clock() < until:
            raise StorageQuotaExceeded(refusal.used, needed, refusal.limit, shared=refusal.shared)
        if owner not in self._growing:
            self._growing.add(owner)
            try:
                await self.quotas.grow(owner.quota_owner, needed + block)
                return block
            except StorageQuotaExceeded:
                pass
            finally:
                self._growing.remove(owner)
        try:
            await self.quotas.grow(owner.quota_owner, needed)
        except StorageQuotaExceeded as error:
            self._refused[owner] = (self._clock() + REFUSAL_TIME, error)
            raise
        return 0
