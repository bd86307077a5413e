"""Notices that a client has gone, and ends the generation of its answer, or the waiting for it, then."""

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
async def ended_with(receive: Receive, generation: Generation) -> AsyncIterator[None]:
    """The generation fails as soon as the client goes, inside and after; an error that leaves closes it.

    Read the body first.
    """
    watch = asyncio.create_task(_watch(receive, generation))
    generation.on_close(watch.cancel)
    try:
        yield
    except BaseException as error:
        generation.close(error if isinstance(error, Exception) else None)
        raise


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
    generation.abandon()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
