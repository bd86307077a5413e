from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport

MakeTransport = Callable[[str], Awaitable[Transport]]
"""A started transport by process name, all to one broker that is fresh for the test; closed after it."""


@pytest.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
async def make_transport(request: pytest.FixtureRequest) -> AsyncIterator[MakeTransport]:
    broker = MemoryBroker()
    url = request.getfixturevalue("rabbitmq_url") if request.param == "rabbitmq" else ""

    def open_transport(name: str) -> Transport:
        return RabbitMQTransport(url, name, publish_timeout=10) if url else MemoryTransport(broker, name)

    async with started(open_transport) as make:
        yield make


T = TypeVar("T", bound=Transport)


@asynccontextmanager
async def started(open_transport: Callable[[str], T]) -> AsyncIterator[Callable[[str], Awaitable[T]]]:
    """Return a function that opens and starts a transport by name; close all of them at the end."""
    opened: list[T] = []

    async def start(name: str) -> T:
        transport = open_transport(name)
        await transport.start()
        opened.append(transport)
        return transport

    yield start
    for transport in opened:
        await transport.close()
