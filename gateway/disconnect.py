"""Notices that a client has gone while its answer is being prepared, and ends the generation, or the waiting, then.

While a stream is running, sse-starlette does this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from starlette.types import Receive

from gateway.errors import ClientDisconnected
from gateway.generation import Generation

T = TypeVar("T")


@asynccontextmanager
async def ended_with(receive: Receive, generation: Generation) -> AsyncIterator[None]:
    """Inside, the generation fails as soon as the client goes; an error that leaves closes it. Read the body first."""
    watch = asyncio.create_task(_watch(receive, generation))
    try:
        yield
    except BaseException as error:
        generation.close(error if isinstance(error, Exception) else None)
        raise
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


async def unless_gone(receive: Receive, waiting: Coroutine[Any, Any, T]) -> T:
    """What `waiting` returns. Read the body first.

    Raises:
        ClientDisconnected: the client went before that.
    """
    work, watch = asyncio.create_task(waiting), asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnected
        return work.result()
    finally:
        for task in (work, watch):
            task.cancel()


async def _watch(receive: Receive, generation: Generation) -> None:
    await _gone(receive)
    generation.fail(ClientDisconnected())


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
