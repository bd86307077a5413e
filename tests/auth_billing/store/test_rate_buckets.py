"""The buckets in a real store and their twin keep the same promises."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from auth_billing.rate_limits.limits import Dimension, Limits, Rate
from auth_billing.rate_limits.ports import BucketStore, LimitStore, Line, Order, Position, Slots
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.rate_buckets import COLLECTION, MongoBucketStore
from auth_billing.store.rate_limits import MongoLimitStore
from tests.fakes.accounts import FakeClock
from tests.fakes.rate_buckets import DictBucketStore, DictLimitStore

RPM, TPM, RPD = Dimension.REQUESTS_PER_MINUTE, Dimension.TOKENS_PER_MINUTE, Dimension.REQUESTS_PER_DAY
DAILY = Rate(10, RPD.period)
"""Comes back so slowly that a test does not see it."""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    connection = StoreConnection(database_url, operation_ms=20_000)
    yield connection
    connection.close()


@pytest.fixture(params=["mongo", "dict"])
def buckets(request: pytest.FixtureRequest) -> BucketStore:
    if request.param == "dict":
        return DictBucketStore(FakeClock(1_800_000_000.0))
    return MongoBucketStore(request.getfixturevalue("connection"))


@pytest.fixture(params=["mongo", "dict"])
def limits(request: pytest.FixtureRequest) -> LimitStore:
    return DictLimitStore() if request.param == "dict" else MongoLimitStore(request.getfixturevalue("connection"))


async def take(buckets: BucketStore, need: int, want: int = 0, *, back: float = 0, who: str = "a") -> Position:
    return await buckets.exchange("key:1", Order(who, {RPD: Line(DAILY, back, need, max(need, want))}))


async def test_a_bucket_gives_what_it_holds_and_no_more(buckets: BucketStore) -> None:
    first = await take(buckets, 3, 6)
    assert first.fulfilled
    assert first.taken == {RPD: 6}
    assert first.full_at[RPD] - first.now == pytest.approx(6 * DAILY.unit)
    second = await take(buckets, 1, 100)
    assert second.taken == {RPD: 4}
    refused = await take(buckets, 1)
    assert not refused.fulfilled
    assert refused.taken == {}
    assert refused.full_at[RPD] - refused.now == pytest.approx(DAILY.period, rel=0.01)


async def test_units_given_back_can_be_taken_again(buckets: BucketStore) -> None:
    await take(buckets, 10)
    assert (await take(buckets, 2, back=2)).fulfilled
    assert not (await take(buckets, 1)).fulfilled
    await take(buckets, 0, back=100)
    assert (await take(buckets, 10)).taken == {RPD: 10}  # never more than it holds


async def test_what_was_used_beyond_is_a_debt_of_a_period_at_most(buckets: BucketStore) -> None:
    await take(buckets, 10)
    owed = await take(buckets, 0, back=-5)
    assert owed.full_at[RPD] - owed.now == pytest.approx(15 * DAILY.unit, rel=0.01)
    owed = await take(buckets, 0, back=-50)
    assert owed.full_at[RPD] - owed.now == pytest.approx(2 * DAILY.period, rel=0.01)


async def test_all_lines_of_an_order_are_fulfilled_or_none(buckets: BucketStore) -> None:
    order = Order("a", {RPD: Line(DAILY, need=1, want=1), TPM: Line(Rate(100, 60.0), need=101, want=101)})
    assert not (await buckets.exchange("key:1", order)).fulfilled
    assert (await take(buckets, 10)).fulfilled


async def test_slots_are_shared_and_never_more_than_there_are(buckets: BucketStore) -> None:
    async def hold(who: str, running: int, need: int, want: int) -> Position:
        return await buckets.exchange("key:1", Order(who, {}, Slots(10, running, need, want, 60.0)))

    assert (await hold("a", 0, 1, 6)).slots == 6
    second = await hold("b", 0, 2, 6)
    assert (second.slots, second.other_slots) == (4, 6)
    refused = await hold("b", 4, 5, 5)
    assert not refused.fulfilled
    assert refused.other_slots == 6
    assert (await hold("a", 1, 1, 1)).slots == 1  # gives back
    assert (await hold("b", 4, 9, 20)).slots == 9
    kept = await buckets.exchange("key:1", Order("b", {}, Slots(2, 9, 9, 9, 60.0)))  # the limit is lower now
    assert (kept.fulfilled, kept.slots) == (True, 9)


async def test_slots_of_a_holder_that_has_died_are_free_after_its_time(buckets: BucketStore) -> None:
    await buckets.exchange("key:1", Order("dead", {}, Slots(1, 0, 1, 1, 0.0)))
    assert (await buckets.exchange("key:1", Order("alive", {}, Slots(1, 0, 1, 1, 60.0)))).fulfilled


async def test_subjects_do_not_share(buckets: BucketStore) -> None:
    await take(buckets, 10)
    assert (await buckets.exchange("key:2", Order("a", {RPD: Line(DAILY, need=10, want=10)}))).fulfilled


async def test_those_who_come_together_get_what_is_there_once(connection: StoreConnection) -> None:
    stores = [MongoBucketStore(connection) for _ in range(4)]
    positions = await asyncio.gather(*(take(stores[i % 4], 1, who=str(i)) for i in range(40)))
    assert sum(position.fulfilled for position in positions) == 10


async def test_processes_together_take_what_is_there_once(database_url: str) -> None:
    """Two processes, each of which tries 25 times to take one of ten, and to hold one of seven slots."""
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
        taken += (await take(buckets, 1, who=who)).fulfilled
        held = await buckets.exchange("key:1", Order(who, {}, Slots(7, slots, slots + 1, slots + 1, 60.0)))
        slots = held.slots if held.fulfilled else slots
    print(taken, slots)
    connection.close()


async def test_a_refused_order_writes_nothing(connection: StoreConnection) -> None:
    buckets, documents = MongoBucketStore(connection), connection.unjournaled(COLLECTION)
    await take(buckets, 10)
    before = await documents.find_one({})
    await take(buckets, 1)
    assert await documents.find_one({}) == before


async def test_a_bucket_whose_clock_was_set_back_starts_afresh(connection: StoreConnection) -> None:
    buckets, documents = MongoBucketStore(connection), connection.unjournaled(COLLECTION)
    await take(buckets, 10)
    await documents.update_one({}, {"$inc": {f"full_at.{RPD}": 3 * RPD.period, "version": 1}})
    assert (await take(buckets, 1)).fulfilled


async def test_documents_that_nobody_asks_for_expire(connection: StoreConnection) -> None:
    await create_indexes(connection)
    await take(MongoBucketStore(connection), 1)
    document = await connection.unjournaled(COLLECTION).find_one({})
    assert document["expires"] > datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    assert "expires_1" in await connection.unjournaled(COLLECTION).index_information()


async def test_limits_are_set_one_by_one(limits: LimitStore) -> None:
    assert await limits.find(["key:1", "project:1"]) == {}
    await limits.change("key:1", Limits(requests_per_minute=5))
    assert await limits.change("key:1", Limits(concurrent_requests=2)) == Limits(5, None, None, 2)
    assert await limits.find(["key:1", "project:1"]) == {"key:1": Limits(5, None, None, 2)}


if __name__ == "__main__":
    asyncio.run(_take_all_you_can(*sys.argv[1:]))
