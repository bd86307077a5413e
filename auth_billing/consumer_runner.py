"""Runs a consumer until the process stops: ends its input first, then waits for the deliveries in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


async def run_consumer(
    stop: asyncio.Event, work: Coroutine[Any, Any, None], end_input: Callable[[], Awaitable[None]], *, grace: float
) -> None:
    """Run `work` until it ends or `stop` is set; then call `end_input`, and cancel `work` after `grace` seconds.

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
