"""Key invalidations reach each gateway and no worker."""

from __future__ import annotations

import asyncio

from auth_billing.keys.key_invalidation import invalidation_publisher
from router import control_targets
from router.bus import Bus
from router.messages import Drain, KeysChanged, KeySet
from router.transport.memory import MemoryTransport
from tests.auth_billing.conftest import Buses


async def test_each_gateway_receives_it_and_no_worker_does(buses: Buses) -> None:
    gateways = [await buses.others.controls([control_targets.GATEWAYS]) for _ in range(2)]
    worker = await buses.others.controls([control_targets.ALL, control_targets.worker("w")])
    invalidation_publisher(buses.billing)(KeySet(project="proj"))
    buses.billing.send_control(control_targets.ALL, Drain())
    async with asyncio.timeout(20):
        assert [await anext(aiter(feed)) for feed in gateways] == [KeysChanged(keys=KeySet(project="proj"))] * 2
        assert await anext(aiter(worker)) == Drain()


async def test_without_a_broker_a_warning_is_logged(buses: Buses) -> None:
    bus = Bus(MemoryTransport(buses.broker, "never-started"))
    invalidation_publisher(bus)(KeySet(project="proj"))
