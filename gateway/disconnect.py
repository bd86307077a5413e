"""Notices that a client has gone while its answer is being prepared, and ends the generation then.

While a stream is running, sse-starlette does this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.types import Receive

from gateway.errors import ClientDisconnected
from gateway.generation import Generation


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


async def _watch(receive: Receive, generation: Generation) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    generation.fail(ClientDisconnected())
