"""Detection of client disconnects, which cancels the client's generation or its wait for a shared response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.types import Receive

from gateway.errors import ClientDisconnected
from gateway.jobs.generation import Generation

T = TypeVar("T")


@asynccontextmanager
async def cancel_on_disconnect(receive: Receive, generation: Generation) -> AsyncIterator[None]:
    """Abandon the generation as soon as the client disconnects, also after the block; an error in the block closes it.

    Read the request's body first.
    """
    watch = asyncio.create_task(_abandon_on_disconnect(receive, generation))
    generation.on_close(watch.cancel)
    try:
        yield
    except BaseException as error:
        generation.close(error if isinstance(error, Exception) else None)
        raise


async def run_until_disconnect(receive: Receive, coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of `coroutine`, which is cancelled if the client disconnects. Read the request's body first.

    Raises:
        ClientDisconnected: The client disconnected before the coroutine returned.
    """
    work, watch = asyncio.create_task(coroutine), asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnected
        return work.result()
    finally:
        for task in (work, watch):
            task.cancel()


async def _abandon_on_disconnect(receive: Receive, generation: Generation) -> None:
    await _disconnected(receive)
    generation.abandon()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
