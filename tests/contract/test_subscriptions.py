"""Private queues of both transports: topics, fanout, order, returns and deletion."""

from __future__ import annotations

import asyncio

import pytest

from router.errors import Unroutable
from router.transport.base import Outgoing
from tests.contract.conftest import MakeTransport
from tests.contract.test_transport import nothing_more, take, topology


async def test_subscription_by_topic(make_transport: MakeTransport) -> None:
    speaker, listener = await make_transport("gateway-1"), await make_transport("worker-1")
    await speaker.declare(topology())
    heard = await listener.subscribe("news", ["worker.w-1", "model.*", "#.end"], arguments={"x-max-length": 100})
    for key in ("worker.w-1", "worker.w-2", "model.a", "model.a.b", "a.b.end", "end", "all"):
        speaker.publish_unconfirmed(Outgoing("news", key, key.encode(), {"h": "x"}))
    received = await take(heard, 4)
    assert [message.routing_key for message in received] == ["worker.w-1", "model.a", "a.b.end", "end"]
    assert received[0].headers["h"] == "x"
    assert await nothing_more(heard)


async def test_every_subscriber_of_a_fanout_receives_a_message(make_transport: MakeTransport) -> None:
    transport = await make_transport("gateway-1")
    await transport.declare(topology())
    subscriptions = [await transport.subscribe("all", [""], arguments={}) for _ in range(2)]
    transport.publish_unconfirmed(Outgoing("all", "", b"beat"))
    for subscription in subscriptions:
        [received] = await take(subscription, 1)
        assert received.body == b"beat"


async def test_unconfirmed_publishes_keep_their_order(make_transport: MakeTransport) -> None:
    transport = await make_transport("worker-1")
    await transport.declare(topology())
    heard = await transport.subscribe("jobs", ["g-1"], arguments={})
    for i in range(500):
        transport.publish_unconfirmed(Outgoing("jobs", "g-1", b"%d" % i), mandatory=True)
    assert [int(message.body) for message in await take(heard, 500)] == list(range(500))
    assert transport.unsent_bytes == 0


async def test_a_mandatory_publish_to_a_closed_subscription_is_returned(make_transport: MakeTransport) -> None:
    worker, gateway = await make_transport("worker-1"), await make_transport("gateway-1")
    await worker.declare(topology())
    inbox = await gateway.subscribe("jobs", ["gateway-1"], arguments={})
    returned: asyncio.Queue[Outgoing] = asyncio.Queue()
    worker.on_return(returned.put_nowait)
    worker.publish_unconfirmed(Outgoing("jobs", "gateway-1", b"1"), mandatory=True)
    assert (await take(inbox, 1))[0].body == b"1"
    await inbox.close()
    async with asyncio.timeout(5):
        assert [message async for message in inbox] == []
    worker.publish_unconfirmed(Outgoing("jobs", "gateway-1", b"2"))
    worker.publish_unconfirmed(Outgoing("jobs", "gateway-1", b"3", {"h": 1}, message_id="m"), mandatory=True)
    async with asyncio.timeout(5):
        message = await returned.get()
    assert (message.exchange, message.routing_key, message.body, message.message_id) == ("jobs", "gateway-1", b"3", "m")


async def test_a_private_queue_is_deleted_with_its_transport(make_transport: MakeTransport) -> None:
    worker, gateway = await make_transport("worker-1"), await make_transport("gateway-1")
    await worker.declare(topology())
    inbox = await gateway.subscribe("jobs", ["gateway-1"], arguments={})
    await gateway.close()
    async with asyncio.timeout(5):
        assert [message async for message in inbox] == []
    with pytest.raises(Unroutable):
        await worker.publish(Outgoing("jobs", "gateway-1", b""))
