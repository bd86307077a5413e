"""Runs a queue consumer of the billing process until shutdown, then lets the deliveries in progress finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


async def run_consumer(
    stop: asyncio.Event, work: Coroutine[Any, Any, None], end_input: Callable[[], Awaitable[None]], *, grace: float
) -> None:
    """Run a queue consumer's coroutine `work` until it ends or `stop` is set.

    Then call `end_input`, which stops new deliveries, wait up to `grace` seconds for `work` to end, and cancel it.

    Raises:
        Exception: each exception that `work` raises.
    """
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await end_input()
        await asyncio.wait({working}, timeout=grace)
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.wait({working, stopping})
    if not working.cancelled():
        working.result()
