"""Disconnects: they cancel a coroutine or abandon a generation, and errors close it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import ClientDisconnected
from gateway.http.disconnect import cancel_on_disconnect, run_until_disconnect


class Client:
    """An ASGI client that disconnects when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}


class Generation:
    """Records how it was ended."""

    def __init__(self) -> None:
        self.ends: list[Any] = []
        self.closing: Callable[[], object] = lambda: None

    def on_close(self, call: Callable[[], object]) -> None:
        self.closing = call

    def abandon(self) -> None:
        self.ends.append("abandoned")

    def close(self, error: Exception | None) -> None:
        self.ends.append(error)
        self.closing()


async def test_a_result_is_returned_while_the_client_waits() -> None:
    assert await run_until_disconnect(Client().receive, asyncio.sleep(0, "result")) == "result"


async def test_a_disconnect_cancels_the_coroutine() -> None:
    client, cancelled = Client(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    running = asyncio.create_task(run_until_disconnect(client.receive, work()))
    await asyncio.sleep(0)
    client.left.set()
    with pytest.raises(ClientDisconnected):
        await running
    await asyncio.wait_for(cancelled.wait(), 1)


async def test_a_disconnect_after_the_block_still_abandons_the_generation() -> None:
    client, generation = Client(), Generation()
    async with cancel_on_disconnect(client.receive, generation):  # type: ignore[arg-type]
        pass
    client.left.set()
    await asyncio.sleep(0.01)
    assert generation.ends == ["abandoned"]


async def test_an_error_in_the_block_closes_the_generation_and_ends_the_watch() -> None:
    client, generation, error = Client(), Generation(), RuntimeError("broken")
    with pytest.raises(RuntimeError):
        async with cancel_on_disconnect(client.receive, generation):  # type: ignore[arg-type]
            raise error
    client.left.set()
    await asyncio.sleep(0.01)
    assert generation.ends == [error]
