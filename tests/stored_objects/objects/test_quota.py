"""Quotas of stored bytes: exact over concurrent writers, per owner and organisation, corrected after crashes."""

from __future__ import annotations

import asyncio

import pytest

from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.quota import QUIET_TIME, CountSubject, StorageQuotas
from stored_objects.objects.records import RECORD_BYTES, ObjectOwner
from tests.stored_objects.conftest import ADA, BOB, Clock, ObjectStores

SIZE = 1000
ONE = SIZE + RECORD_BYTES
OWN, SHARED = CountSubject("org-1", "user-ada"), CountSubject("org-1")


def quotas(stores: ObjectStores, clock: Clock, per_owner: int = 3 * ONE, shared: int = 5 * ONE) -> StorageQuotas:
    return StorageQuotas(
        stores.counts,
        [stores.documents],
        per_owner=per_owner,
        per_project=2 * ONE,
        per_organisation=shared,
        clock=clock,
    )


async def test_concurrent_writers_never_exceed_the_quota_of_an_owner(stores: ObjectStores, clock: Clock) -> None:
    tried = await asyncio.gather(*(quotas(stores, clock).reserve(ADA, SIZE) for _ in range(8)), return_exceptions=True)
    refused = [each for each in tried if isinstance(each, StorageQuotaExceeded)]
    assert (tried.count(None), len(refused)) == (3, 5)
    assert not any(each.shared for each in refused)
    assert [await quotas(stores, clock).used(each) for each in (OWN, SHARED)] == [3 * ONE, 3 * ONE]


async def test_an_organisations_quota_is_shared_by_its_owners(stores: ObjectStores, clock: Clock) -> None:
    quota = quotas(stores, clock)
    for owner in (ADA, ADA, ADA, BOB, BOB):
        await quota.reserve(owner, SIZE)
    with pytest.raises(StorageQuotaExceeded) as refused:
        await quota.reserve(BOB, SIZE)
    assert refused.value.shared
    assert await quota.used(CountSubject("org-1", "key-bob")) == 2 * ONE  # the refused one is not counted
    await quota.release(ADA, SIZE)
    await quota.reserve(BOB, SIZE)
    assert (await quota.used(OWN), await quota.used(SHARED)) == (2 * ONE, 5 * ONE)


async def test_a_count_that_a_crash_left_too_high_is_corrected_when_it_is_quiet(
    stores: ObjectStores, clock: Clock
) -> None:
    quota = quotas(stores, clock)
    for _ in range(3):
        await quota.reserve(ADA, SIZE)  # without documents: their writers died
    with pytest.raises(StorageQuotaExceeded):
        await quota.reserve(ADA, SIZE)
    clock.now += QUIET_TIME + 1
    await quota.reserve(ADA, SIZE)
    assert await quota.used(OWN) == ONE


async def test_projects_have_a_quota_of_their_own(stores: ObjectStores, clock: Clock) -> None:
    quota, project = quotas(stores, clock), ObjectOwner.of_project("org-1", "proj-1")
    await quota.reserve(project, SIZE)
    await quota.reserve(project, SIZE)
    with pytest.raises(StorageQuotaExceeded) as refused:
        await quota.reserve(project, SIZE)
    assert (refused.value.limit, refused.value.shared) == (2 * ONE, False)
    await quota.shrink(project, SIZE)
    assert [await quota.used(each) for each in (CountSubject("org-1", project.requester), SHARED)] == [
        ONE + RECORD_BYTES,
        ONE + RECORD_BYTES,
    ]
