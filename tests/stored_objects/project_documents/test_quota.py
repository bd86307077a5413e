"""Quota of project documents: blocks that are reserved in advance, debts, refusals and a store that is away."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.errors import StoreUnavailable
from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.quota import CountSubject, StorageQuotas
from stored_objects.objects.records import ObjectOwner
from stored_objects.project_documents.quota import BLOCK, REFUSAL_TIME, DocumentQuota
from stored_objects.project_documents.records import ProjectOwner
from tests.fakes.byte_counts import MIB, storage_quotas
from tests.stored_objects.conftest import Clock

OURS = ProjectOwner("org-1", "proj-1")
SUBJECT = CountSubject("org-1", OURS.quota_owner.requester)


class WatchedQuotas(StorageQuotas):
    """Storage quotas that count their changes, and fail while `is_down`."""

    changes = 0
    is_down = False

    async def grow(self, owner: ObjectOwner, more: int) -> None:
        self._change()
        await super().grow(owner, more)

    async def shrink(self, owner: ObjectOwner, less: int) -> None:
        self._change()
        await super().shrink(owner, less)

    def _change(self) -> None:
        self.changes += 1
        if self.is_down:
            raise StoreUnavailable("no answer")


@pytest.fixture
def quotas(clock: Clock) -> WatchedQuotas:
    return WatchedQuotas(**vars(storage_quotas(per_project=10 * MIB, clock=clock)))


@pytest.fixture
def quota(quotas: WatchedQuotas, clock: Clock) -> DocumentQuota:
    return DocumentQuota(quotas, clock=clock)


async def test_most_documents_cost_no_write(quota: DocumentQuota, quotas: WatchedQuotas) -> None:
    for _ in range(100):
        await quota.reserve(OURS, BLOCK // 50)
    assert quotas.changes == 2
    for _ in range(100):
        await quota.release(OURS, BLOCK // 50)
    assert quotas.changes <= 4
    await quota.close()
    assert await quotas.used(SUBJECT) == await quotas.used(CountSubject("org-1")) == 0


async def test_large_documents_cost_one_write_at_most(quota: DocumentQuota, quotas: WatchedQuotas) -> None:
    await quota.reserve(OURS, 3 * MIB)
    await quota.reserve(OURS, 3 * MIB)
    assert quotas.changes == 1


async def test_the_quota_holds_for_documents_at_once_in_two_processes(quotas: WatchedQuotas, clock: Clock) -> None:
    both = DocumentQuota(quotas, clock=clock), DocumentQuota(quotas, clock=clock)
    tried = await asyncio.gather(*(each.reserve(OURS, MIB) for each in both for _ in range(9)), return_exceptions=True)
    assert tried.count(None) <= 10
    assert all(each is None or isinstance(each, StorageQuotaExceeded) for each in tried)
    for each in both:
        await each.close()
    assert await quotas.used(SUBJECT) == tried.count(None) * MIB


async def test_the_last_bytes_are_used_without_a_block(quota: DocumentQuota, quotas: WatchedQuotas) -> None:
    await quota.reserve(OURS, 10 * MIB)
    assert await quotas.used(SUBJECT) == 10 * MIB


async def test_a_full_project_is_refused_without_the_store_for_a_while(
    quota: DocumentQuota, quotas: WatchedQuotas, clock: Clock
) -> None:
    await quota.reserve(OURS, 10 * MIB)
    with pytest.raises(StorageQuotaExceeded):
        await quota.reserve(OURS, 1)
    changes = quotas.changes
    with pytest.raises(StorageQuotaExceeded):
        await quota.reserve(OURS, 1)
    assert quotas.changes == changes
    await quotas.shrink(OURS.quota_owner, MIB)  # another process has erased something
    clock.now += REFUSAL_TIME
    await quota.reserve(OURS, 1)


async def test_what_is_erased_makes_room_at_once(quota: DocumentQuota) -> None:
    await quota.reserve(OURS, 10 * MIB)
    with pytest.raises(StorageQuotaExceeded):
        await quota.reserve(OURS, 1)
    await quota.release(OURS, 1000)
    await quota.reserve(OURS, 1000)


async def test_what_was_paid_for_is_counted_beyond_the_limit(quota: DocumentQuota, quotas: WatchedQuotas) -> None:
    await quota.reserve(OURS, 10 * MIB)
    await quota.release(OURS, -3 * MIB)
    await quota.close()
    assert await quotas.used(SUBJECT) == 13 * MIB


async def test_what_the_store_did_not_count_is_counted_later(quota: DocumentQuota, quotas: WatchedQuotas) -> None:
    await quota.reserve(OURS, MIB)
    quotas.is_down = True
    with pytest.raises(StoreUnavailable):
        await quota.reserve(OURS, 5 * MIB)
    await quota.release(OURS, -2 * MIB)
    quotas.is_down = False
    await quota.release(OURS, 0)
    await quota.close()
    assert await quotas.used(SUBJECT) == 3 * MIB
