"""A usage record is stored once, whatever is repeated, reordered or unavailable; impossible ones are parked.

Also covers `money/usage_store.py`, which has the port and the result of an insertion.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from tenacity import wait_fixed

from auth_billing.metrics import BillingMetrics
from auth_billing.money.settlement import SettlementConsumer
from auth_billing.money.settler import Settler
from auth_billing.money.usage_records import record_error
from auth_billing.money.usage_store import UsageStore
from router import topology
from router.bus import Bus
from router.diagnosis import REASON_HEADER
from router.messages import Outcome, Usage, UsageRecord
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.auth_billing.conftest import Buses, Eventually
from tests.fakes.accounts import DictUsageStore
from tests.fakes.billing_stores import dict_billing_stores


def record(number: int = 0, *, tokens: int = 3, **changes: object) -> UsageRecord:
    plain = UsageRecord(
        job=f"chatcmpl-{number}",
        attempt=f"attempt-{number}",
        tenant="t",
        model="m",
        worker="worker-1",
        outcome=Outcome.FINISHED,
        usage=Usage(prompt_tokens=5, completion_tokens=tokens),
        at=1.0,
    )
    return msgspec.structs.replace(plain, **changes)


@asynccontextmanager
async def running_settlement(
    bus: Bus, store: UsageStore, settler: Settler | None = None, metrics: BillingMetrics | None = None
) -> AsyncIterator[None]:
    stop = asyncio.Event()
    metrics = metrics or BillingMetrics(CollectorRegistry())
    settler = settler or Settler(dict_billing_stores(), metrics)
    consumer = SettlementConsumer(bus, store, settler, metrics=metrics, retry_wait=wait_fixed(0.001))
    task = asyncio.create_task(consumer.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


def ready(broker: MemoryBroker, queue: str = topology.SETTLE_QUEUE) -> int:
    """Return the number of messages in a queue, with those that a closed bus left unacknowledged."""
    return len(broker.queue(queue))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
async def test_repeats_in_any_order_are_stored_once(numbers: list[int]) -> None:
    broker, store = MemoryBroker(), DictUsageStore()
    bus = Bus(MemoryTransport(broker, "billing"))
    await bus.start()
    async with running_settlement(bus, store):
        for number in numbers:
            await bus.publish_settlement(record(number))
        async with asyncio.timeout(20):
            while store.absence.asked < len(numbers):
                await asyncio.sleep(0.001)
    await bus.close()
    assert ready(broker) == 0
    assert store.records == {(each.job, each.attempt): each for each in map(record, numbers)}


async def publish_during_a_write(buses: Buses, store: DictUsageStore, count: int, eventually: Eventually) -> None:
    """Publish a record, and `count` more while the store writes it."""
    store.writing = asyncio.Event()
    await buses.others.publish_settlement(record(0))
    await eventually(lambda: store.batches == [1])
    for number in range(1, count + 1):
        await buses.others.publish_settlement(record(number))
    store.writing.set()


async def test_records_that_arrive_during_a_write_are_written_together(buses: Buses, eventually: Eventually) -> None:
    store = DictUsageStore()
    async with running_settlement(buses.billing, store):
        await publish_during_a_write(buses, store, 9, eventually)
        await eventually(lambda: len(store.records) == 10)
    assert sum(store.batches) == 10
    assert len(store.batches) < 10
    await buses.billing.close()
    assert ready(buses.broker) == 0


async def test_a_refused_record_does_not_block_its_batch(buses: Buses, eventually: Eventually) -> None:
    store = DictUsageStore()
    store.refused = {"chatcmpl-3"}
    async with running_settlement(buses.billing, store):
        await publish_during_a_write(buses, store, 5, eventually)
        await eventually(lambda: ready(buses.broker, topology.PARKED_QUEUE) == 1)
        await eventually(lambda: len(store.records) == 5)
    await buses.billing.close()
    assert ready(buses.broker) == 0


async def test_a_record_whose_answer_was_lost_is_stored_once(buses: Buses, eventually: Eventually) -> None:
    store = DictUsageStore()
    store.lose_answer = 2
    async with running_settlement(buses.billing, store):
        await buses.others.publish_settlement(record())
        await eventually(lambda: store.absence.asked == 3)
    await buses.billing.close()
    assert ready(buses.broker) == 0
    assert list(store.records.values()) == [record()]


async def test_records_wait_for_an_unavailable_store(buses: Buses, eventually: Eventually) -> None:
    store = DictUsageStore()
    store.absence.away = True
    async with running_settlement(buses.billing, store):
        for number in range(10):
            await buses.others.publish_settlement(record(number))
        await eventually(lambda: store.absence.asked > 30)
        store.absence.away = False
        await eventually(lambda: len(store.records) == 10)
    await buses.billing.close()
    assert ready(buses.broker) == 0


async def test_a_stop_during_an_outage_leaves_records_queued(
    buses: Buses, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auth_billing.money.settlement.STOP_TIMEOUT", 0.01)
    store = DictUsageStore()
    store.absence.away = True
    async with running_settlement(buses.billing, store):
        await buses.others.publish_settlement(record())
        await eventually(lambda: store.absence.asked > 0)
    await buses.billing.close()
    assert ready(buses.broker) == 1


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (record(job="a b"), "malformed"),
        (record(tenant="t" * 300), "longer than"),
        (record(usage=Usage(prompt_tokens=2**63)), "64 bits"),
        (record(usage=Usage(prompt_tokens=1, cached_tokens=2)), "cached"),
        (record(at=float("inf")), "time"),
    ],
)
def test_impossible_records_are_refused_with_a_reason(wrong: UsageRecord, reason: str) -> None:
    assert reason in (record_error(wrong) or "")
    assert record_error(record()) is None


async def test_a_conflicting_record_is_parked_with_its_reason(buses: Buses, eventually: Eventually) -> None:
    store = DictUsageStore()
    async with running_settlement(buses.billing, store):
        await buses.others.publish_settlement(record(tokens=3))
        await eventually(lambda: len(store.records) == 1)
        await buses.others.publish_settlement(record(tokens=4))
        await eventually(lambda: ready(buses.broker, topology.PARKED_QUEUE) == 1)
    assert list(store.records.values()) == [record(tokens=3)]
    transport = MemoryTransport(buses.broker, "operator")
    await transport.start()
    parked = await transport.consume(topology.PARKED_QUEUE, prefetch=1)
    delivery = await anext(aiter(parked))
    assert "another record" in str(delivery.headers[REASON_HEADER])
