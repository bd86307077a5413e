"""The embedded server: an application that does not start is an error, not the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from runtime.embedded_server import EmbeddedServer
from runtime.lifecycle import StartupError


@asynccontextmanager
async def store_is_down(app: FastAPI) -> AsyncIterator[None]:
    raise ConnectionError("the store does not answer")
    yield


async def test_an_application_that_does_not_start() -> None:
    """uvicorn would end the process here, and the event loop would run no cleanup."""
    app = FastAPI(lifespan=store_is_down)
    server = EmbeddedServer(uvicorn.Config(app, port=0, lifespan="on", log_config=None))
    serving = asyncio.create_task(server.serve())
    await asyncio.wait({serving})
    assert isinstance(serving.exception(), StartupError)
    assert not server.listening.is_set()
