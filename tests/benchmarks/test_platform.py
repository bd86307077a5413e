"""Tests of the platform benchmark: its client counts a server's events, and its table has medians."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from benchmarks.platform import summarise
from benchmarks.platform_client import Client, Connection, Exchange, Target
from benchmarks.platform_stub import TOKENS, Stub, answer


async def test_the_client_counts_events_and_tokens_of_the_stub() -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
    client = Client(Target("127.0.0.1", server.sockets[0].getsockname()[1], "key", "model"))
    await client.open_connections(2)
    await client.open_loop(rate=200.0, seconds=0.2)
    client.close()
    server.close()
    assert len(client.exchanges) > 10
    for exchange in client.exchanges:
        assert (exchange.events, exchange.tokens, exchange.error) == (TOKENS, TOKENS, "")
        assert exchange.first is not None
        assert exchange.end is not None
        assert exchange.due <= exchange.first <= exchange.end
    assert client.events == TOKENS * len(client.exchanges)


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_the_client_reads_a_stream_in_pieces_of_any_size(size: int) -> None:
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(answer())
    free: list[Connection] = []
    connection, exchange = Connection(free.append), Exchange(due=0.0)
    connection.connection_made(Mock(spec=asyncio.WriteTransport))
    connection.send(b"request", exchange)
    for begin in range(0, len(whole), size):
        assert free == []
        connection.data_received(whole[begin : begin + size])
    assert (exchange.events, exchange.tokens, exchange.error) == (TOKENS, TOKENS, "")
    assert free == [connection]


def test_the_client_reads_the_events_of_a_streamed_response() -> None:
    frames = [
        b'data: {"type":"response.created","response":{"output":[],"usage":null}}\n\n',
        b'data: {"type":"response.content_part.added","part":{"type":"output_text","text":""}}\n\n',
        b'data: {"type":"response.output_text.delta","delta":"0 "}\n\n',
        b'data: {"type":"response.output_text.delta","delta":"1 2 "}\n\n',
        b'data: {"type":"response.completed","response":{"usage":{"input_tokens":25,"output_tokens":3}}}\n\n',
    ]
    exchange, connection = _sent()
    for data in (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *frames[:2]):
        connection.data_received(data)
    assert exchange.first is None
    for data in (*frames[2:], b"data: [DONE]\n\n"):
        connection.data_received(data)
    assert exchange.end is None
    connection.data_received(b"0\r\n\r\n")
    assert (exchange.events, exchange.tokens, exchange.error) == (2, 3, "")
    assert exchange.first is not None
    assert exchange.end is not None


@pytest.mark.parametrize("name", [b"completion_tokens", b"output_tokens"])
def test_the_client_reads_an_answer_without_a_stream(name: bytes) -> None:
    body = b'{"content":"0 1","usage":{"' + name + b'":2}}'
    exchange, connection = _sent()
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:-1])
    assert exchange.end is None
    connection.data_received(body[-1:])
    assert (exchange.tokens, exchange.error) == (2, "")
    assert exchange.first is not None
    assert exchange.end is not None


def _sent() -> tuple[Exchange, Connection]:
    """Return an exchange whose request was sent on the returned connection."""
    connection, exchange = Connection(lambda _: None), Exchange(due=0.0)
    connection.connection_made(Mock(spec=asyncio.WriteTransport))
    connection.send(b"request", exchange)
    return exchange, connection


async def test_a_refusal_is_a_failure_with_an_end() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    client = Client(Target("127.0.0.1", server.sockets[0].getsockname()[1], "key", "model"))
    await client.open_connections(1)
    await client.open_loop(rate=100.0, seconds=0.1)
    server.close()
    assert {exchange.error for exchange in client.exchanges} == {"503"}
    assert all(exchange.end for exchange in client.exchanges)


def test_medians_and_the_time_added_to_the_stub() -> None:
    def repeat(ours: float, stub: float) -> list[dict[str, str | int | float | bool | None]]:
        return [
            {"system": "headrace", "load": "20/s", "ttft_p50_ms": ours},
            {"system": "stub", "load": "20/s", "ttft_p50_ms": stub},
        ]

    assert summarise([repeat(5.0, 1.0), repeat(9.0, 1.5), repeat(6.0, 0.5)]) == [
        {"system": "headrace", "load": "20/s", "ttft_p50_ms": 6.0, "added_ttft_p50_ms": 5.0},
        {"system": "stub", "load": "20/s", "ttft_p50_ms": 1.0},
    ]
