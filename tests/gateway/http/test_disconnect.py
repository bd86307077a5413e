"""Disconnects are noticed, and cancel a coroutine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import ClientDisconnected
from gateway.http.disconnect import disconnected, run_until_disconnect


class Client:
    """An ASGI client that disconnects once `left` is set."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}


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


async def test_a_disconnect_is_awaited_past_other_messages() -> None:
    messages: list[dict[str, Any]] = [{"type": "http.request", "more_body": False}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    await disconnected(receive)
    assert not messages
