"""The contract of every transport: RabbitMQ and the in-memory one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterable, AsyncIterator
from typing import TypeVar

import pytest

from router.errors import BrokerRefused, BrokerUnavailable, QueueFull, Unroutable
from router.topology import Binding, Exchange, Queue, Topology
from router.transport.base import ConnectionState, Consumer, Delivery, Outgoing, Transport
from tests.contract.conftest import MakeTransport

T = TypeVar("T")

QUORUM: dict[str, str | int] = {"x-queue-type": "quorum", "x-delivery-limit": 1000}


def topology(**arguments: str | int) -> Topology:
    """A queue `work` with its dead letters in `dead`, an exchange of each type."""
    dying = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "gone.work"}
    return Topology(
        exchanges=(
            Exchange("jobs", "direct"),
            Exchange("news", "topic"),
            Exchange("all", "fanout"),
            Exchange("dead", "topic"),
        ),
        queues=(
            Queue("work", {**QUORUM, **dying, **{k.replace("_", "-"): v for k, v in arguments.items()}}),
            Queue("dead", QUORUM),
        ),
        bindings=(Binding("jobs", "work", "work"), Binding("dead", "gone.#", "dead")),
    )


def job(text: str, **more: int) -> Outgoing:
    return Outgoing("jobs", "work", text.encode(), message_id=text, persistent=True, expires_ms=more.get("expires_ms"))


async def take(messages: AsyncIterable[T], count: int) -> list[T]:
    taken: list[T] = []
    async with asyncio.timeout(20):
        iterator: AsyncIterator[T] = aiter(messages)
        while len(taken) < count:
            taken.append(await anext(iterator))
    return taken


def texts(deliveries: list[Delivery]) -> list[str]:
    return [delivery.body.decode() for delivery in deliveries]


async def nothing_more(messages: AsyncIterable[T]) -> bool:
    try:
        async with asyncio.timeout(0.3):
            await anext(aiter(messages))
    except TimeoutError:
        return True
    return False


async def offer_until_taken(transport: Transport, consumer: Consumer) -> str:
    """Publish jobs until `consumer` gets one, and say which: an acknowledgement and what is published after it go by
    different connections, so that the broker may hear of the new room later."""
    for i in itertools.count(100):
        await transport.publish(job(str(i)))
        try:
            async with asyncio.timeout(1):
                return (await anext(aiter(consumer))).body.decode()
        except TimeoutError:
            continue
    raise AssertionError


async def test_publish_and_consume(make_transport: MakeTransport) -> None:
    sender, receiver = await make_transport("gateway-1"), await make_transport("worker-1")
    await sender.declare(topology())
    consumer = await receiver.consume("work", prefetch=2)
    await sender.publish(Outgoing("jobs", "work", b"{}", {"traceparent": "00-1", "n": 3}, message_id="j1"))
    [delivery] = await take(consumer, 1)
    assert (delivery.body, delivery.message_id, delivery.routing_key) == (b"{}", "j1", "work")
    assert (delivery.headers["traceparent"], delivery.headers["n"]) == ("00-1", 3)
    assert (delivery.redelivered, delivery.delivery_count, delivery.lost, delivery.death_reason) == (
        False,
        0,
        False,
        None,
    )
    delivery.ack()


async def test_messages_arrive_in_order_within_the_prefetch(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    await transport.declare(topology())
    await asyncio.gather(*(transport.publish(job(str(i))) for i in range(20)))
    consumer = await transport.consume("work", prefetch=3)
    first = await take(consumer, 3)
    assert texts(first) == ["0", "1", "2"]
    assert await nothing_more(consumer)
    first[0].ack()
    assert texts(await take(consumer, 1)) == ["3"]


async def test_consumers_are_served_round_robin(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    one = await (await make_transport("worker-1")).consume("work", prefetch=4)
    two = await (await make_transport("worker-2")).consume("work", prefetch=4)
    for i in range(8):
        await transport.publish(job(str(i)))
    assert sorted(texts(await take(one, 4) + await take(two, 4))) == [str(i) for i in range(8)]


async def test_a_lower_priority_gets_messages_beyond_the_capacity_of_a_higher_one(
    make_transport: MakeTransport,
) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    overflow = await (await make_transport("proxy-1")).consume("work", prefetch=10, priority=-1)
    local_process = await make_transport("worker-1")
    local = await local_process.consume("work", prefetch=2)
    for i in range(2):
        await transport.publish(job(str(i)))
    first = await take(local, 2)
    assert texts(first) == ["0", "1"]
    assert await nothing_more(overflow)
    await transport.publish(job("2"))
    assert texts(await take(overflow, 1)) == ["2"]
    first[0].ack()
    third = await offer_until_taken(transport, local)
    await local_process.close()
    left = {"1", third}
    while left:
        left -= set(texts(await take(overflow, 1)))


async def test_unroutable(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    results = await asyncio.gather(
        transport.publish(job("ok")),
        transport.publish(Outgoing("jobs", "nobody", b"")),
        transport.publish(job("ok too")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), Unroutable, type(None)]


async def test_a_full_queue_rejects_publishes_until_it_is_consumed(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology(x_max_length=3, x_overflow="reject-publish"))
    queued: list[str] = []
    with pytest.raises(QueueFull):  # noqa: PT012
        for i in range(200):  # RabbitMQ tells its channels of a full quorum queue a few messages late
            await transport.publish(job(str(i)))
            queued.append(str(i))
    assert len(queued) >= 3
    consumer = await transport.consume("work", prefetch=len(queued))
    deliveries = await take(consumer, len(queued))
    assert texts(deliveries) == queued
    for delivery in deliveries:
        delivery.ack()
    async with asyncio.timeout(10):
        while True:
            try:
                await transport.publish(job("again"))
                break
            except QueueFull:
                await asyncio.sleep(0.01)


async def consumer_of(make_transport: MakeTransport, *sent: str) -> Consumer:
    """Return a consumer that takes one message at a time, of a queue that has the messages `sent`."""
    transport = await make_transport("worker-1")
    await transport.declare(topology())
    for text in sent:
        await transport.publish(job(text))
    return await transport.consume("work", prefetch=1)


async def test_a_requeued_message_is_redelivered_first_with_its_delivery_count(make_transport: MakeTransport) -> None:
    consumer = await consumer_of(make_transport, "a", "b")
    [first] = await take(consumer, 1)
    first.reject(requeue=True)
    [again] = await take(consumer, 1)
    assert (again.body, again.redelivered, again.delivery_count) == (b"a", True, 1)
    assert type(again.delivery_count) is int  # the worker says it in its first reply


async def test_delivery_limit_leads_to_the_dead_letters(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    await transport.declare(topology(x_delivery_limit=2))
    await transport.publish(job("poison"))
    consumer = await transport.consume("work", prefetch=1)
    counts = []
    for _ in range(3):
        [delivery] = await take(consumer, 1)
        counts.append(delivery.delivery_count)
        delivery.reject(requeue=True)
    [dead] = await take(await transport.consume("dead", prefetch=1), 1)
    assert counts == [0, 1, 2]
    assert (dead.body, dead.message_id, dead.death_reason) == (b"poison", "poison", "delivery_limit")
    assert dead.routing_key == "gone.work"
    dead.ack()


async def test_reject_leads_to_the_dead_letters(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    await transport.declare(topology())
    await transport.publish(job("bad"))
    [delivery] = await take(await transport.consume("work", prefetch=1), 1)
    delivery.reject(requeue=False)
    [dead] = await take(await transport.consume("dead", prefetch=1), 1)
    assert (dead.body, dead.death_reason) == (b"bad", "rejected")


async def test_only_the_head_expires(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    await transport.publish(job("long", expires_ms=60_000))
    await transport.publish(job("short", expires_ms=100))
    dead = await transport.consume("dead", prefetch=10)
    assert await nothing_more(dead)
    consumer = await transport.consume("work", prefetch=1)
    assert texts(await take(consumer, 1)) == ["long"]
    [expired] = await take(dead, 1)
    assert (expired.body, expired.death_reason) == (b"short", "expired")


async def test_the_head_expires_without_consumers(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    await transport.publish(job("short", expires_ms=50))
    [expired] = await take(await transport.consume("dead", prefetch=1), 1)
    assert expired.death_reason == "expired"


async def test_cancelled_consumer_ends_and_its_deliveries_can_be_settled(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    await transport.declare(topology())
    for text in ("a", "b", "c"):
        await transport.publish(job(text))
    consumer = await transport.consume("work", prefetch=2)
    a, b = await take(consumer, 2)
    await consumer.cancel()
    await consumer.cancel()  # idempotent
    async with asyncio.timeout(5):
        assert [delivery async for delivery in consumer] == []
    a.ack()
    b.reject(requeue=True)
    successor = await transport.consume("work", prefetch=5)
    rest = await take(successor, 2)
    assert sorted(texts(rest)) == ["b", "c"]
    assert await nothing_more(successor)


async def test_deliveries_go_back_when_a_transport_closes(make_transport: MakeTransport) -> None:
    sender, doomed, heir = [await make_transport(name) for name in ("gateway-1", "worker-1", "worker-2")]
    await sender.declare(topology())
    for text in ("a", "b"):
        await sender.publish(job(text))
    consumer = await doomed.consume("work", prefetch=5)
    mine = await take(consumer, 2)
    await doomed.close()
    async with asyncio.timeout(5):
        assert [delivery async for delivery in consumer] == []
    assert all(delivery.lost for delivery in mine)
    mine[0].ack()  # has no effect
    again = await take(await heir.consume("work", prefetch=5), 2)
    assert texts(again) == ["a", "b"]
    assert [delivery.delivery_count for delivery in again] == [1, 1]


async def test_settling_twice_does_nothing(make_transport: MakeTransport) -> None:
    consumer = await consumer_of(make_transport, "a", "b")
    [a] = await take(consumer, 1)
    a.ack()
    a.ack()
    a.reject(requeue=True)
    [b] = await take(consumer, 1)
    assert (b.body, b.lost) == (b"b", False)
    b.ack()
    assert await nothing_more(consumer)


async def test_declaring_is_idempotent_and_other_arguments_are_refused(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    await transport.declare(topology())
    await transport.declare(topology())
    with pytest.raises(BrokerRefused, match="PRECONDITION_FAILED"):
        await transport.declare(topology(x_max_length=7))
    await transport.publish(job("still works"))


async def test_consuming_a_missing_queue_is_refused(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    with pytest.raises(BrokerRefused, match="nowhere"):
        await transport.consume("nowhere", prefetch=1)
    with pytest.raises(BrokerRefused, match="no-news"):
        await transport.subscribe("no-news", ["a"], arguments={})
    assert transport.state is ConnectionState.UP


async def test_closed_transport_refuses(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    assert transport.state is ConnectionState.UP
    await transport.close()
    assert transport.state is ConnectionState.DOWN
    with pytest.raises(BrokerUnavailable):
        await transport.publish(job("late"))
    with pytest.raises(BrokerUnavailable):
        transport.publish_unconfirmed(job("late"))
    with pytest.raises(BrokerUnavailable):
        await transport.consume("work", prefetch=1)
    await transport.close()


async def test_close_waits_for_confirms(make_transport: MakeTransport) -> None:
    sender, receiver = await make_transport("gateway-1"), await make_transport("worker-1")
    await sender.declare(topology())
    publishes = [asyncio.create_task(sender.publish(job(str(i)))) for i in range(50)]
    await asyncio.sleep(0)
    await sender.close()
    assert await asyncio.gather(*publishes) == [None] * 50
    assert len(await take(await receiver.consume("work", prefetch=50), 50)) == 50


async def test_browsing_a_queue_removes_nothing(make_transport: MakeTransport) -> None:
    sender, reader = await make_transport("gateway-1"), await make_transport("operator")
    await sender.declare(topology())
    for text in "abc":
        await sender.publish(job(text))
    browser = await reader.browse("work")
    seen = [await browser.get() for _ in range(4)]
    assert [each and each.body.decode() for each in seen] == ["a", "b", "c", None]
    assert seen[1] is not None
    seen[1].ack()
    await browser.close()
    assert seen[0] is not None
    assert seen[0].lost
    seen[0].ack()  # too late: it went back
    again = await (await make_transport("operator-2")).browse("work")
    assert [each and each.body.decode() for each in [await again.get() for _ in range(3)]] == ["a", "c", None]
    await reader.close()
    with pytest.raises(BrokerUnavailable):
        await reader.browse("work")


async def test_browsing_a_missing_queue_is_refused(make_transport: MakeTransport) -> None:
    reader = await make_transport("operator")
    with pytest.raises(BrokerRefused):
        await (await reader.browse("nowhere")).get()


async def test_a_bounded_queue_drops_its_oldest(make_transport: MakeTransport) -> None:
    sender = await make_transport("gateway-1")
    await sender.declare(topology(x_max_length=2, x_overflow="drop-head", x_dead_letter_strategy="at-most-once"))
    for text in "abcd":
        await sender.publish(job(text))
    browser = await sender.browse("work")
    kept = [each for each in [await browser.get() for _ in range(3)] if each is not None]
    assert texts(kept) == ["c", "d"]
