"""Submission of an HTTP request's jobs: a client that disconnects abandons them."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.scripted_worker import start_and_wait
from tests.gateway.conftest import Serve, eventually, reset


@pytest.mark.parametrize("stream", [False, True])
async def test_jobs_are_cancelled_when_their_client_disconnects(serve: Serve, stream: bool) -> None:
    server = await serve(start_and_wait)
    _, writer = await server.post(stream=stream)
    await eventually(lambda: bool(server.stage.worker.jobs))
    (job,) = server.stage.worker.jobs
    reset(writer)
    async with asyncio.timeout(10):
        await server.stage.worker.cancel_of(job.id).wait()
