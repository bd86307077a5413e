"""Byte counts of storage quotas in a dictionary, and quotas over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from stored_objects.objects.quota import ByteCount, CountSubject, StorageQuotas, StoredBytes
from stored_objects.project_documents.quota import DocumentQuota

MIB = 2**20


class DictByteCounts:
    """`quota.ByteCounts` in a dictionary."""

    def __init__(self) -> None:
        self.counts: dict[CountSubject, ByteCount] = {}

    async def find(self, subject: CountSubject) -> ByteCount | None:
        return self.counts.get(subject)

    async def begin(self, subject: CountSubject, count: ByteCount) -> None:
        self.counts.setdefault(subject, count)

    async def add(self, subject: CountSubject, more: int, now: float, limit: int | None = None) -> bool:
        found = self.counts.get(subject)
        if found is None or (limit is not None and found.total + more > limit):
            return False
        self.counts[subject] = ByteCount(found.total + more, now)
        return True

    async def correct(self, subject: CountSubject, before: ByteCount, count: ByteCount) -> bool:
        if self.counts.get(subject) != before:
            return False
        self.counts[subject] = count
        return True


def storage_quotas(
    stores: Sequence[StoredBytes] = (), per_project: int = 100 * MIB, *, clock: Callable[[], float] = time.time
) -> StorageQuotas:
    """Quotas that are counted in memory; `stores` have what is stored before."""
    limits = {"per_owner": MIB, "per_project": per_project, "per_organisation": 1000 * MIB}
    return StorageQuotas(DictByteCounts(), stores, **limits, clock=clock)


def document_quota(
    stores: Sequence[StoredBytes] = (), per_project: int = 100 * MIB, *, clock: Callable[[], float] = time.time
) -> DocumentQuota:
    """The quota of project documents in `stores`, counted in memory."""
    return DocumentQuota(storage_quotas(stores, per_project, clock=clock), clock=clock)
