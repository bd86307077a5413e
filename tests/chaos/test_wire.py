"""The client's connection when the server has closed first."""

from __future__ import annotations

import asyncio

import pytest

from tests.chaos.wire import Broken, Exchange


async def test_hanging_up_on_who_has_gone_already_is_nothing() -> None:
    async def gone(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(gone, "127.0.0.1", 0)
    exchange = await Exchange.post(server.sockets[0].getsockname()[1], "/", {}, b"{}")
    with pytest.raises(Broken):
        await exchange.head()
    exchange._writer.transport.abort()
    await asyncio.sleep(0.01)  # its socket is closed
    exchange.close(reset=True)
    server.close()
