"""Token buckets and slots in MongoDB and in memory: shared by processes, never more than there are."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import pytest

from auth_billing.rate_limits.limits import BucketRate, Dimension
from auth_billing.rate_limits.ports import BucketStore, BucketUpdate, SlotUpdate, UnitUpdate, UpdateResult
from auth_billing.store.connection import StoreConnection
from auth_billing.store.rate_buckets import COLLECTION, MongoBucketStore
from tests.fakes.accounts import FakeClock
from tests.fakes.rate_buckets import DictBucketStore

RPM, TPM, RPD = Dimension.REQUESTS_PER_MINUTE, Dimension.TOKENS_PER_MINUTE, Dimension.REQUESTS_PER_DAY


DAILY = BucketRate(10, RPD.period)
"""A refill so slow that it has no effect during a test."""


@pytest.fixture(params=["mongo", "dict"])
def buckets(request: pytest.FixtureRequest) -> BucketStore:
    if request.param == "dict":
        return DictBucketStore(FakeClock(1_800_000_000.0))
    return MongoBucketStore(request.getfixturevalue("connection"))


async def take(buckets: BucketStore, need: int, want: int = 0, *, back: int = 0, who: str = "a") -> UpdateResult:
    return await buckets.update("key:1", BucketUpdate(who, {RPD: UnitUpdate(DAILY, back, need, max(need, want))}))


async def test_a_bucket_never_gives_more_than_it_holds(buckets: BucketStore) -> None:
    first = await take(buckets, 3, 6)
    assert first.applied
    assert first.taken == {RPD: 6}
    assert first.full_at[RPD] - first.now == pytest.approx(6 * DAILY.unit)
    second = await take(buckets, 1, 100)
    assert second.taken == {RPD: 4}
    refused = await take(buckets, 1)
    assert not refused.applied
    assert refused.taken == {}
    assert refused.full_at[RPD] - refused.now == pytest.approx(DAILY.period, rel=0.01)


async def test_returned_units_can_be_taken_again(buckets: BucketStore) -> None:
    await take(buckets, 10)
    assert (await take(buckets, 2, back=2)).applied
    assert not (await take(buckets, 1)).applied
    await take(buckets, 0, back=100)
    assert (await take(buckets, 10)).taken == {RPD: 10}  # never more than it holds


async def test_overuse_is_a_debt_of_at_most_one_period(buckets: BucketStore) -> None:
    await take(buckets, 10)
    owed = await take(buckets, 0, back=-5)
    assert owed.full_at[RPD] - owed.now == pytest.approx(15 * DAILY.unit, rel=0.01)
    owed = await take(buckets, 0, back=-50)
    assert owed.full_at[RPD] - owed.now == pytest.approx(2 * DAILY.period, rel=0.01)


async def test_an_order_is_fulfilled_as_a_whole_or_not_at_all(buckets: BucketStore) -> None:
    update = BucketUpdate(
        "a",
        {RPD: UnitUpdate(DAILY, minimum=1, wanted=1), TPM: UnitUpdate(BucketRate(100, 60.0), minimum=101, wanted=101)},
    )
    assert not (await buckets.update("key:1", update)).applied
    assert (await take(buckets, 10)).applied


async def test_slots_never_exceed_the_limit(buckets: BucketStore) -> None:
    async def hold(who: str, running: int, need: int, want: int) -> UpdateResult:
        return await buckets.update("key:1", BucketUpdate(who, {}, SlotUpdate(10, running, need, want, 60.0)))

    assert (await hold("a", 0, 1, 6)).slots == 6
    second = await hold("b", 0, 2, 6)
    assert (second.slots, second.other_slots) == (4, 6)
    refused = await hold("b", 4, 5, 5)
    assert not refused.applied
    assert refused.other_slots == 6
    assert (await hold("a", 1, 1, 1)).slots == 1  # returns slots
    assert (await hold("b", 4, 9, 20)).slots == 9
    kept = await buckets.update("key:1", BucketUpdate("b", {}, SlotUpdate(2, 9, 9, 9, 60.0)))  # the limit is lower now
    assert (kept.applied, kept.slots) == (True, 9)


async def test_slots_of_a_dead_holder_expire(buckets: BucketStore) -> None:
    await buckets.update("key:1", BucketUpdate("dead", {}, SlotUpdate(1, 0, 1, 1, 0.0)))
    assert (await buckets.update("key:1", BucketUpdate("alive", {}, SlotUpdate(1, 0, 1, 1, 60.0)))).applied


async def test_subjects_have_separate_buckets(buckets: BucketStore) -> None:
    await take(buckets, 10)
    assert (await buckets.update("key:2", BucketUpdate("a", {RPD: UnitUpdate(DAILY, minimum=10, wanted=10)}))).applied


async def test_concurrent_orders_never_take_too_much(connection: StoreConnection) -> None:
    stores = [MongoBucketStore(connection) for _ in range(4)]
    results = await asyncio.gather(*(take(stores[i % 4], 1, who=str(i)) for i in range(40)))
    assert sum(result.applied for result in results) == 10


async def test_concurrent_processes_never_take_too_much(database_url: str) -> None:
    """Two processes try 25 times each to take one of ten units and one of seven slots."""
    taking = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, database_url, str(number), stdout=asyncio.subprocess.PIPE
        )
        for number in range(2)
    ]
    said = [(await process.communicate())[0].split() for process in taking]
    assert [process.returncode for process in taking] == [0] * 2
    assert sum(int(taken) for taken, _ in said) == 10
    assert sum(int(slots) for _, slots in said) == 7


async def _take_all_you_can(database_url: str, who: str) -> None:
    connection = StoreConnection(database_url, operation_ms=20_000)
    buckets, taken, slots = MongoBucketStore(connection), 0, 0
    for _ in range(25):
        taken += (await take(buckets, 1, who=who)).applied
        held = await buckets.update("key:1", BucketUpdate(who, {}, SlotUpdate(7, slots, slots + 1, slots + 1, 60.0)))
        slots = held.slots if held.applied else slots
    print(taken, slots)
    connection.close()


async def test_a_refused_order_writes_nothing(connection: StoreConnection) -> None:
    buckets, documents = MongoBucketStore(connection), connection.unjournaled(COLLECTION)
    await take(buckets, 10)
    before = await documents.find_one({})
    await take(buckets, 1)
    assert await documents.find_one({}) == before


async def test_a_bucket_is_reset_after_the_clock_was_set_back(connection: StoreConnection) -> None:
    buckets, documents = MongoBucketStore(connection), connection.unjournaled(COLLECTION)
    await take(buckets, 10)
    await documents.update_one({}, {"$inc": {f"full_at.{RPD}": 3 * RPD.period, "version": 1}})
    assert (await take(buckets, 1)).applied


async def test_unused_buckets_expire(connection: StoreConnection) -> None:
    await take(MongoBucketStore(connection), 1)
    document = await connection.unjournaled(COLLECTION).find_one({})
    assert document["expires"] > datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    assert "expires_1" in await connection.unjournaled(COLLECTION).index_information()


if __name__ == "__main__":
    asyncio.run(_take_all_you_can(*sys.argv[1:]))
