"""Enforces storage quotas: counts the bytes that each person, API key, project and organisation stores, to a limit.

One count for each in the store, changed by conditional updates, so that the quotas hold over all processes. Bytes are
counted before the document is written, and released after it was removed; a count that a crash left too high is
replaced by the exact sum once it is in the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.records import RECORD_BYTES, ObjectOwner

QUIET_TIME = 900.0
"""Seconds without change before a count may be corrected: bytes may be counted for a request before it writes them."""


@dataclass(frozen=True)
class ByteCount:
    """The bytes that an owner or organisation has stored, and when the count last changed, in Unix seconds."""

    total: int
    changed: float


@dataclass(frozen=True)
class CountSubject:
    """The subject of a byte count: one owner, or with `requester=None` a whole organisation."""

    organisation: str
    requester: str | None = None


class ByteCounts(Protocol):
    """Interface of the store of byte counts. Each method raises `StoreUnavailable` if the store does not answer."""

    async def find(self, subject: CountSubject) -> ByteCount | None:
        """Return the stored byte count of one owner or organisation; `None` if it has none yet."""
        ...

    async def begin(self, subject: CountSubject, count: ByteCount) -> None:
        """Store the first byte count of one owner or organisation; does nothing if it has one."""
        ...

    async def add(self, subject: CountSubject, more: int, now: float, limit: int | None = None) -> bool:
        """Add `more` bytes (negative: subtract) to a subject's count.

        Return false, unchanged, if it has none or would exceed `limit`.
        """
        ...

    async def correct(self, subject: CountSubject, before: ByteCount, count: ByteCount) -> bool:
        """Replace a subject's byte count by `count` if it still equals `before`.

        Otherwise return false and change nothing.
        """
        ...


class StoredBytes(Protocol):
    """Interface of a store whose records count towards quotas, such as that of images and files."""

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the number of bytes that an owner, or if `requester` is `None` an organisation, stores here."""
        ...


@dataclass(eq=False, repr=False)
class StorageQuotas:
    """Limits the bytes of each person or API key, of each project's files and documents, and of each organisation."""

    counts: ByteCounts
    stores: Sequence[StoredBytes]
    """All stores whose records count."""
    per_owner: int
    per_project: int
    per_organisation: int
    clock: Callable[[], float] = time.time

    async def reserve(self, owner: ObjectOwner, size: int) -> None:
        """Add a new object of `size` bytes to the counts of its owner and organisation, before its document is written.

        Raises:
            StorageQuotaExceeded: the owner or organisation would store more than allowed; nothing is counted.
        """
        await self.grow(owner, size + RECORD_BYTES)

    async def grow(self, owner: ObjectOwner, more: int) -> None:
        """Add `more` bytes to the counts of an owner and its organisation, before they are stored.

        Raises:
            StorageQuotaExceeded: the owner or organisation would store more than allowed; nothing is counted.
        """
        own, shared = _subjects(owner)
        await self._reserve(own, more, self.per_project if owner.is_project else self.per_owner)
        try:
            await self._reserve(shared, more, self.per_organisation)
        except StorageQuotaExceeded:
            await self.counts.add(own, -more, self.clock())
            raise

    async def release(self, owner: ObjectOwner, size: int) -> None:
        """Subtract an object of `size` bytes from its owner's and organisation's counts; remove its document first."""
        await self.shrink(owner, size + RECORD_BYTES)

    async def shrink(self, owner: ObjectOwner, less: int) -> None:
        """Subtract `less` bytes (negative: add, beyond the limit too) from an owner's and organisation's counts."""
        for subject in _subjects(owner):
            await self.counts.add(subject, -less, self.clock())

    async def used(self, subject: CountSubject) -> int:
        """Return the number of bytes that one owner or organisation has stored, by its count."""
        return (await self._count(subject)).total

    async def _reserve(self, subject: CountSubject, more: int, limit: int) -> None:
        if await self.counts.add(subject, more, self.clock(), limit):
            return
        count = await self._count(subject)
        if count.total + more > limit and count.changed < self.clock() - QUIET_TIME:
            await self.counts.correct(subject, count, await self._exact(subject))
        if not await self.counts.add(subject, more, self.clock(), limit):
            raise StorageQuotaExceeded(await self.used(subject), more, limit, shared=subject.requester is None)

    async def _count(self, subject: CountSubject) -> ByteCount:
        found = await self.counts.find(subject)
        if found is None:
            found = await self._exact(subject)
            await self.counts.begin(subject, found)
            found = await self.counts.find(subject) or found
        return found

    async def _exact(self, subject: CountSubject) -> ByteCount:
        sums = [await each.stored_bytes(subject.organisation, subject.requester) for each in self.stores]
        return ByteCount(sum(sums), self.clock())


def _subjects(owner: ObjectOwner) -> tuple[CountSubject, CountSubject]:
    return CountSubject(owner.organisation, owner.requester), CountSubject(owner.organisation)
