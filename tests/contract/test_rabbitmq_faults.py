"""Faults of a real broker: loss, restart, memory alarm, lost objects (docs/design/queue-topology.md#pika)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable

import psutil
import pytest

from router.errors import BrokerUnavailable, PublishError, PublishUnknown, Unroutable
from router.transport.base import ConnectionState, Outgoing
from router.transport.rabbitmq import RabbitMQTransport
from tests.child_process import NodeProcess, rabbitmqctl
from tests.contract.conftest import started
from tests.contract.test_transport import job, take, texts, topology
from tests.rabbitmq_fixtures import Console

pytestmark = pytest.mark.rabbitmq

Make = Callable[[str], Awaitable[RabbitMQTransport]]


@pytest.fixture
async def make(rabbitmq_url: str) -> AsyncIterator[Make]:
    async with started(lambda name: RabbitMQTransport(rabbitmq_url, name, publish_timeout=10)) as start:
        yield start


@pytest.fixture
def vhost(rabbitmq_url: str) -> str:
    return urllib.parse.urlsplit(rabbitmq_url).path.removeprefix("/")


async def becomes(transport: RabbitMQTransport, state: ConnectionState) -> None:
    async with asyncio.timeout(60):
        while transport.state is not state:
            await asyncio.sleep(0.02)


async def publish_until_taken(transport: RabbitMQTransport, message: Outgoing) -> None:
    """Retry as callers do: a broker that has just restarted fails some requests for a while."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await transport.publish(message)
            except PublishError:
                await asyncio.sleep(0.1)


async def hear_again(transport: RabbitMQTransport, message: Outgoing, heard: asyncio.Queue[bytes]) -> bytes:
    """Publish unconfirmed until a reopened subscription receives it."""
    async with asyncio.timeout(60):
        while heard.empty():
            with contextlib.suppress(BrokerUnavailable):
                transport.publish_unconfirmed(message)
            await asyncio.sleep(0.1)
        return heard.get_nowait()


async def test_all_connections_recover_after_a_broker_restart(make: Make, rabbitmq_node: NodeProcess) -> None:
    sender, worker = await make("gateway-1"), await make("worker-1")
    await sender.declare(topology())
    consumer = await worker.consume("work", prefetch=5)
    subscription = await worker.subscribe("news", ["x"], arguments={})
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen() -> None:
        async for message in subscription:
            heard.put_nowait(message.body)

    listening = asyncio.create_task(listen())
    await sender.publish(job("before"))
    [held] = await take(consumer, 1)

    await asyncio.to_thread(rabbitmqctl, rabbitmq_node, "stop_app")
    await becomes(sender, ConnectionState.DOWN)
    with pytest.raises(BrokerUnavailable):
        await sender.publish(job("meanwhile"))
    with pytest.raises(BrokerUnavailable):
        sender.publish_unconfirmed(job("meanwhile"))
    await asyncio.to_thread(rabbitmqctl, rabbitmq_node, "start_app")
    await becomes(sender, ConnectionState.UP)

    [again] = await take(consumer, 1)
    assert (again.body, again.redelivered, held.lost, again.lost) == (b"before", True, True, False)
    held.ack()  # a stale tag must not reach the broker: it would close the new channel
    again.ack()
    await publish_until_taken(sender, job("after"))
    [after] = await take(consumer, 1)
    assert (after.body, after.lost) == (b"after", False)
    assert await hear_again(sender, Outgoing("news", "x", b"hello"), heard) == b"hello"
    listening.cancel()


async def test_kill_9_of_the_broker_leaves_no_publish_without_an_answer(make: Make, rabbitmq_node: NodeProcess) -> None:
    sender, worker = await make("gateway-1"), await make("worker-1")
    await sender.declare(topology())
    await publish_until_taken(sender, job("warm"))
    publishes = [asyncio.create_task(sender.publish(job(str(i)))) for i in range(300)]
    await asyncio.wait(publishes, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(rabbitmq_node.kill)
    async with asyncio.timeout(15):
        outcomes = await asyncio.gather(*publishes, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {type(None), PublishUnknown, BrokerUnavailable}
    confirmed = {str(i) for i, outcome in enumerate(outcomes) if outcome is None}

    await asyncio.to_thread(rabbitmq_node.start)
    await becomes(sender, ConnectionState.UP)
    await publish_until_taken(sender, job("last"))
    consumer = await worker.consume("work", prefetch=1000)
    seen: set[str] = set()
    while "last" not in seen:
        [delivery] = await take(consumer, 1)
        seen.add(delivery.body.decode())
        delivery.ack()
    assert confirmed <= seen


async def test_a_frozen_broker_makes_publishes_unknown_in_time(rabbitmq_url: str, rabbitmq_node: NodeProcess) -> None:
    transport = RabbitMQTransport(rabbitmq_url, "gateway-1", publish_timeout=0.5)
    await transport.start()
    await transport.declare(topology())
    assert rabbitmq_node.pid is not None
    broker = psutil.Process(rabbitmq_node.pid)
    broker.suspend()
    try:
        with pytest.raises(PublishUnknown):
            await transport.publish(job("frozen"))
        with pytest.raises(BrokerUnavailable):
            await transport.consume("work", prefetch=1)
    finally:
        broker.resume()
    await publish_until_taken(transport, job("thawed"))
    consumer = await transport.consume("work", prefetch=10)
    assert set(texts(await take(consumer, 2))) == {"frozen", "thawed"}  # unknown is not "not queued"
    await transport.close()


async def test_memory_alarm_blocks_publishing_but_not_acks(make: Make, rabbitmq_node: NodeProcess) -> None:
    sender = await make("gateway-1")
    await sender.declare(topology())
    await sender.publish(job("before"))
    consumer = await sender.consume("work", prefetch=1)
    [held] = await take(consumer, 1)
    await asyncio.to_thread(rabbitmqctl, rabbitmq_node, "set_vm_memory_high_watermark", "absolute", "1MB")
    try:
        first = asyncio.create_task(sender.publish(job("first")))  # makes the broker send connection.blocked
        await becomes(sender, ConnectionState.BLOCKED)
        with pytest.raises(BrokerUnavailable, match="blocked"):
            await sender.publish(job("second"))
        sender.publish_unconfirmed(Outgoing("news", "x", b"buffered"))
        held.ack()  # goes over the other connection
    finally:
        await asyncio.to_thread(rabbitmqctl, rabbitmq_node, "set_vm_memory_high_watermark", "0.5")
    await becomes(sender, ConnectionState.UP)
    await first
    assert texts(await take(consumer, 1)) == ["first"]


async def test_publish_to_a_deleted_exchange(make: Make, console: Console, vhost: str) -> None:
    transport = await make("gateway-1")
    await transport.declare(topology())
    consumer = await transport.consume("work", prefetch=5)
    await asyncio.to_thread(console.call, "DELETE", f"exchanges/{vhost}/jobs")
    with pytest.raises(PublishUnknown, match="404"):
        await transport.publish(job("lost"))
    await becomes(transport, ConnectionState.UP)
    await publish_until_taken(transport, job("found"))  # the exchange was declared anew with the channel
    assert texts(await take(consumer, 1)) == ["found"]


async def test_an_unconfirmed_publish_to_a_deleted_exchange_does_not_affect_others(make: Make) -> None:
    transport = await make("gateway-1")
    await transport.declare(topology())
    transport.publish_unconfirmed(Outgoing("no-such-exchange", "x", b""))
    await asyncio.gather(*(publish_until_taken(transport, job(str(i))) for i in range(20)))
    consumer = await transport.consume("work", prefetch=50)
    assert len(await take(consumer, 20)) == 20
    await becomes(transport, ConnectionState.UP)


async def test_a_consumer_of_a_deleted_queue_resumes_when_it_is_declared_again(
    make: Make, console: Console, vhost: str
) -> None:
    transport = await make("worker-1")
    await transport.declare(topology())
    consumer = await transport.consume("work", prefetch=5)
    await transport.publish(job("held"))
    [held] = await take(consumer, 1)
    await asyncio.to_thread(console.call, "DELETE", f"queues/{vhost}/work")
    async with asyncio.timeout(10):
        while not held.lost:
            await asyncio.sleep(0.01)
    with pytest.raises(Unroutable):
        await transport.publish(job("nobody"))
    await transport.declare(topology())
    await transport.publish(job("again"))
    assert texts(await take(consumer, 1)) == ["again"]


async def test_a_message_that_can_not_be_encoded_does_not_affect_others(make: Make) -> None:
    transport = await make("gateway-1")
    await transport.declare(topology())
    results = await asyncio.gather(
        transport.publish(job("a")),
        transport.publish(Outgoing("jobs", "x" * 300, b"")),  # AMQP's short strings end at 255 bytes
        transport.publish(Outgoing("jobs", "nobody", b"")),
        transport.publish(job("b")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), BrokerUnavailable, Unroutable, type(None)]


async def test_names_in_the_console(make: Make, rabbitmq_node: NodeProcess, vhost: str) -> None:
    worker = await make("worker-2")
    await worker.declare(topology())
    await worker.consume("work", prefetch=7)
    connections = await asyncio.to_thread(rabbitmqctl, rabbitmq_node, "list_connections", "vhost", "client_properties")
    consumers = await asyncio.to_thread(rabbitmqctl, rabbitmq_node, "list_consumers", "-p", vhost)
    for name in ("worker-2 publish", "worker-2 consume"):
        assert name in connections
    assert "work" in consumers
    assert "worker-2" in consumers


async def test_start_without_a_broker_names_it_and_not_the_password() -> None:
    transport = RabbitMQTransport("amqp://gateway:geheim@127.0.0.1:1/headrace", "gateway-1", start_timeout=2)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1: .*refused") as caught:
        await transport.start()
    assert "geheim" not in str(caught.value)
    assert transport.state is ConnectionState.DOWN
    assert not [thread for thread in threading.enumerate() if thread.name == "gateway-1 amqp"]


async def test_start_with_a_wrong_password_says_so(rabbitmq_node: NodeProcess) -> None:
    url = f"amqp://gateway:geheim@127.0.0.1:{rabbitmq_node.ports.amqp}/headrace"
    with pytest.raises(BrokerUnavailable, match="ACCESS_REFUSED") as caught:
        await RabbitMQTransport(url, "gateway-1", start_timeout=5).start()
    assert "geheim" not in str(caught.value)


async def test_no_thread_is_left_after_close(make: Make) -> None:
    transport = await make("gateway-77")
    await transport.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "gateway-77 amqp"]


def test_a_bad_url_is_refused_without_repeating_it() -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        RabbitMQTransport("http://u:geheim@[", "x")
    assert "geheim" not in str(caught.value)
