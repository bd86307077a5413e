"""Usage records in MongoDB: stored once, refused past 64 bits, durable once acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.money.usage_store import Insertion
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage import MongoUsageStore
from router.messages import Usage
from tests.auth_billing.money.test_usage_records import record
from tests.child_process import StoreProcess

pytestmark = pytest.mark.store


async def test_a_usage_record_is_new_then_repeated_then_conflicting(connection: StoreConnection) -> None:
    usage = MongoUsageStore(connection)
    assert await usage.add(record()) is Insertion.NEW
    assert await usage.add(record(at=99.0)) is Insertion.REPEATED
    assert await usage.add(record(tokens=4)) is Insertion.CONFLICTING
    assert [each["usage"]["completion_tokens"] async for each in connection.durable("usage").find()] == [3]


async def test_a_batch_reports_which_records_are_new(connection: StoreConnection) -> None:
    usage = MongoUsageStore(connection)
    await usage.add(record(0))
    together = [record(1), record(0), record(2), record(2, tokens=4)]
    assert await usage.add_new(together) == [True, False, True, False]
    assert await usage.add(record(2, tokens=4)) is Insertion.CONFLICTING
    assert [await usage.add(record(number)) for number in range(3)] == [Insertion.REPEATED] * 3


async def test_a_batch_with_a_record_past_64_bits_is_refused(connection: StoreConnection) -> None:
    with pytest.raises(RecordRefused):
        await MongoUsageStore(connection).add_new([record(0), record(1, usage=Usage(prompt_tokens=2**63))])


async def test_a_record_past_64_bits_is_refused(connection: StoreConnection) -> None:
    with pytest.raises(RecordRefused):
        await MongoUsageStore(connection).add(record(usage=Usage(prompt_tokens=2**63)))


async def test_kill_9_loses_no_acknowledged_record(own_store: Callable[[], StoreProcess]) -> None:
    store = own_store()
    connection = StoreConnection(store.url, operation_ms=20_000)
    usage, acknowledged = MongoUsageStore(connection), []

    async def write(number: int) -> None:
        try:
            await usage.add(record(number))
        except StoreUnavailable:
            return
        acknowledged.append(number)
        if len(acknowledged) == 40:
            store.kill()

    async with asyncio.TaskGroup() as group:
        limit = asyncio.Semaphore(8)

        async def bounded(number: int) -> None:
            async with limit:
                await write(number)

        for number in range(60):
            group.create_task(bounded(number))
    assert len(acknowledged) >= 40
    await asyncio.to_thread(store.start)
    found = {each["job"] async for each in connection.durable("usage").find()}
    assert {f"chatcmpl-{number}" for number in acknowledged} <= found
    assert await usage.add(msgspec.structs.replace(record(acknowledged[0]))) is Insertion.REPEATED
    connection.close()
