"""A bus for billing and one for the other processes, on the in-memory broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport


@dataclass
class Buses:
    broker: MemoryBroker
    billing: Bus
    others: Bus


@pytest.fixture
async def buses() -> AsyncIterator[Buses]:
    broker = MemoryBroker()
    billing, others = (Bus(MemoryTransport(broker, name)) for name in ("billing", "others"))
    for bus in (billing, others):
        await bus.start()
    yield Buses(broker, billing, others)
    for bus in (billing, others):
        await bus.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], object]:
    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.005)

    return wait
