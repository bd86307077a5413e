"""The TCP proxy obeys its commands, and a black hole that ends has lost nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.chaos.tcp_proxy import Mode, TcpProxy

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[TcpProxy], Awaitable[Connection]]


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    """In front of a server that echoes."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                writer.write(data)
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    wire = TcpProxy(server.sockets[0].getsockname()[1])
    await wire.start()
    yield wire
    await wire.stop()
    server.close()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Open connections to a proxy; they are closed after the test."""
    writers: list[asyncio.StreamWriter] = []

    async def opened(proxy: TcpProxy) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writers.append(writer)
        return reader, writer

    yield opened
    for writer in writers:
        writer.close()


async def said(connection: Connection, text: bytes) -> bytes:
    reader, writer = connection
    writer.write(text)
    return await asyncio.wait_for(reader.readexactly(len(text)), 20)


async def test_it_passes_both_ways_and_passes_the_end_on(proxy: TcpProxy, connect: Connect) -> None:
    connection = await connect(proxy)
    assert await said(connection, b"hello") == b"hello"
    connection[1].write_eof()
    assert await connection[0].read() == b""
    connection[1].close()


async def test_a_black_hole_says_nothing_and_gives_all_back_when_it_ends(proxy: TcpProxy, connect: Connect) -> None:
    old = await connect(proxy)
    assert await said(old, b"before") == b"before"
    proxy.set(Mode.DROP)
    new = await connect(proxy)
    hearing = [asyncio.create_task(said(each, b"meanwhile")) for each in (old, new)]
    done, _ = await asyncio.wait(hearing, timeout=0.2)
    assert not done
    proxy.set(Mode.PASS)
    assert await asyncio.gather(*hearing) == [b"meanwhile", b"meanwhile"]


async def test_a_delay_is_at_least_that_each_way(proxy: TcpProxy, connect: Connect) -> None:
    connection = await connect(proxy)
    proxy.set(Mode.DELAY, delay=0.1)
    began = time.monotonic()
    assert await said(connection, b"slow") == b"slow"
    assert time.monotonic() - began >= 0.2


async def test_a_reset_ends_old_connections_and_new_ones_until_it_passes_again(
    proxy: TcpProxy, connect: Connect
) -> None:
    old = await connect(proxy)
    assert await said(old, b"before") == b"before"
    proxy.set(Mode.RESET)
    for connection in (old, await connect(proxy)):
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(connection[0].readexactly(1), 20)
    proxy.set(Mode.PASS)
    assert await said(await connect(proxy), b"again") == b"again"


async def test_a_connection_to_a_port_without_a_listener_ends_at_once(connect: Connect) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    wire = TcpProxy(port)
    await wire.start()
    reader, _ = await connect(wire)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.readexactly(1), 20)
    await wire.stop()
