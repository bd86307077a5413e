"""A gateway's inbox, workers that search, and verifiers on a broker in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.fleet import Fleet

TIMINGS: dict[str, Any] = {"gateway_grace": 0.1}


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    broker = MemoryBroker()
    async with AsyncExitStack() as transports:

        async def make_transport(name: str) -> Transport:
            transport = MemoryTransport(broker, name)
            await transport.start()
            transports.push_async_callback(transport.close)
            return transport

        async with Fleet(make_transport, **TIMINGS) as fleet:
            yield fleet
