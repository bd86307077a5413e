"""In-memory transport: behaviour beyond the contract tests, or not reproducible on RabbitMQ."""

from __future__ import annotations

import pytest

from router.errors import BrokerUnavailable
from router.topology import Exchange, Topology
from router.transport.base import ConnectionState, Outgoing
from router.transport.memory import MemoryBroker, MemoryTransport

TOPOLOGY = Topology(exchanges=(Exchange("news", "topic"),))


@pytest.fixture
async def transport() -> MemoryTransport:
    transport = MemoryTransport(MemoryBroker(), "gateway-1")
    await transport.start()
    await transport.declare(TOPOLOGY)
    return transport


@pytest.mark.parametrize("arguments", [{"x-max-length": 3}, {"x-max-length-bytes": 4}])
async def test_a_full_private_queue_drops_its_oldest(transport: MemoryTransport, arguments: dict[str, int]) -> None:
    subscription = await transport.subscribe("news", ["#"], arguments=arguments)
    for i in range(6):
        transport.publish_unconfirmed(Outgoing("news", "x", str(i).encode()))
    await subscription.close()
    kept = [received.body for received in [message async for message in subscription]]
    assert kept == [b"3", b"4", b"5"] if "x-max-length" in arguments else kept == [b"2", b"3", b"4", b"5"]


async def test_a_private_queue_that_is_read_never_drops(transport: MemoryTransport) -> None:
    subscription = await transport.subscribe("news", ["#"], arguments={"x-max-length": 1})
    reader = aiter(subscription)
    for i in range(5):
        transport.publish_unconfirmed(Outgoing("news", "x", str(i).encode()))
        assert (await anext(reader)).body == str(i).encode()


async def test_an_alarm_blocks_publishers_only() -> None:
    broker = MemoryBroker()
    transport = MemoryTransport(broker, "gateway-1")
    assert transport.state is ConnectionState.DOWN
    await transport.start()
    await transport.declare(TOPOLOGY)
    broker.alarm = True
    assert transport.state is ConnectionState.BLOCKED
    with pytest.raises(BrokerUnavailable, match="blocked"):
        await transport.publish(Outgoing("news", "x", b""))
    transport.publish_unconfirmed(Outgoing("news", "x", b""))


@pytest.mark.parametrize(
    ("pattern", "heard"),
    [
        ("#", ["", "a", "a.b", "a.b.c"]),
        ("a.#", ["a", "a.b", "a.b.c"]),
        ("#.c", ["a.b.c"]),
        ("a.*", ["a.b"]),
        ("*.b.*", ["a.b.c"]),
        ("a.#.c", ["a.b.c"]),
    ],
)
async def test_topics(transport: MemoryTransport, pattern: str, heard: list[str]) -> None:
    subscription = await transport.subscribe("news", [pattern], arguments={})
    for key in ("", "a", "a.b", "a.b.c"):
        transport.publish_unconfirmed(Outgoing("news", key, b""))
    await subscription.close()
    assert [received.routing_key async for received in subscription] == heard
