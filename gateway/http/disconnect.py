"""Detects that an HTTP client has disconnected, to cancel its generation or its wait for a shared response."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from gateway.errors import ClientDisconnected

T = TypeVar("T")


async def run_until_disconnect(receive: Receive, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` and return its result; cancel it if the client disconnects, and wait until it has ended.

    Read the request's body before.

    Raises:
        ClientDisconnected: The client disconnected before the coroutine returned.
    """
    work, watch = asyncio.create_task(coroutine), asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnected
        return work.result()
    finally:
        for task in (work, watch):
            task.cancel()
        await asyncio.wait({work, watch})


async def disconnected(receive: Receive) -> None:
    """Wait until the HTTP client of `receive` disconnects. The request's body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass
