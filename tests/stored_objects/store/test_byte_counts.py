"""Counts of stored bytes in MongoDB and in memory: changed within a limit, corrected only if unchanged."""

from __future__ import annotations

import asyncio

from stored_objects.objects.quota import ByteCount, CountSubject
from tests.stored_objects.conftest import START, ObjectStores

OWNER, ORGANISATION = CountSubject("org-1", "user-ada"), CountSubject("org-1")


async def test_a_count_is_begun_once(stores: ObjectStores) -> None:
    assert await stores.counts.find(OWNER) is None
    assert not await stores.counts.add(OWNER, 1, START)
    await stores.counts.begin(OWNER, ByteCount(5, START))
    await stores.counts.begin(OWNER, ByteCount(7, START))
    assert await stores.counts.find(OWNER) == ByteCount(5, START)
    assert await stores.counts.find(ORGANISATION) is None


async def test_concurrent_additions_never_exceed_the_limit(stores: ObjectStores) -> None:
    await stores.counts.begin(OWNER, ByteCount(0, START))
    added = await asyncio.gather(*(stores.counts.add(OWNER, 3, START + 1, 20) for _ in range(10)))
    assert sum(added) == 6
    assert await stores.counts.find(OWNER) == ByteCount(18, START + 1)


async def test_a_count_is_corrected_only_if_it_has_not_changed(stores: ObjectStores) -> None:
    await stores.counts.begin(ORGANISATION, before := ByteCount(5, START))
    await stores.counts.add(ORGANISATION, 0, START + 1)
    assert not await stores.counts.correct(ORGANISATION, before, ByteCount(3, START + 2))
    assert await stores.counts.correct(ORGANISATION, ByteCount(5, START + 1), ByteCount(3, START + 2))
    assert await stores.counts.find(ORGANISATION) == ByteCount(3, START + 2)
