from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport

MakeTransport = Callable[[str], Awaitable[Transport]]
"""A started transport by process name, all to one broker that is fresh for the test; closed after it."""


@pytest.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
async def make_transport(request: pytest.FixtureRequest) -> AsyncIterator[MakeTransport]:
    opened: list[Transport] = []
    broker = MemoryBroker()
    url = request.getfixturevalue("rabbitmq_url") if request.param == "rabbitmq" else ""

    async def make(name: str) -> Transport:
        transport: Transport = (
            RabbitMQTransport(url, name, publish_timeout=10) if url else MemoryTransport(broker, name)
        )
        await transport.start()
        opened.append(transport)
        return transport

    yield make
    for transport in opened:
        await transport.close()
