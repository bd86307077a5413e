"""Streams with an idempotency key: several readers of one run, reconnects, and replays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import openai
import pytest

from tests.fakes.scripted_worker import count, never, start_and_wait
from tests.gateway.answers.test_idempotency import CHAT, Held, settled
from tests.gateway.conftest import HI, KEY, MODEL, Serve, Served, reset


class Caller:
    """A client of the real server that reads a stream by hand."""

    def __init__(self, server: Served) -> None:
        self._server = server

    async def __aenter__(self) -> Caller:
        self.reader, self.writer = await self._server.connect()
        body = json.dumps({"model": MODEL, "messages": HI, "stream": True}).encode()
        self.writer.write(
            f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nIdempotency-Key: k\r\n"
            f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()


FIRST_TOKENS, LAST_TOKEN, DONE = b'"content":"0 1 "', b'"content":"2 "', b"data: [DONE]\n\n"


@pytest.mark.parametrize("leave", [reset, asyncio.StreamWriter.close], ids=["reset", "close"])
async def test_a_second_reader_starts_at_the_beginning_and_outlives_the_first(
    serve: Serve, leave: Callable[[asyncio.StreamWriter], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.LINGER_TIMEOUT", 0.0)
    held = Held()
    server = await serve(held)
    async with Caller(server) as first, Caller(server) as second:
        await first.reader.readuntil(FIRST_TOKENS)
        head = await second.reader.readuntil(b"\r\n\r\n")
        assert b"idempotent-replayed: true" in head
        await second.reader.readuntil(FIRST_TOKENS)
        leave(first.writer)
        await asyncio.sleep(0.1)
        held.go.set()
        await second.reader.readuntil(LAST_TOKEN)
        await second.reader.readuntil(DONE)
    assert len(server.stage.worker.jobs) == 1
    assert not server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).is_set()


async def test_a_client_that_reconnects_soon_joins_the_running_stream(serve: Serve) -> None:
    held = Held()
    server = await serve(held)
    async with Caller(server) as first:
        await first.reader.readuntil(FIRST_TOKENS)
        reset(first.writer)
    async with Caller(server) as again:
        await again.reader.readuntil(FIRST_TOKENS)
        held.go.set()
        await again.reader.readuntil(DONE)
    assert len(server.stage.worker.jobs) == 1


@pytest.mark.parametrize("header_delay", [0.0, 60.0], ids=["streaming", "before the status"])
async def test_a_run_without_readers_is_cancelled_and_starts_again(
    serve: Serve, header_delay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.LINGER_TIMEOUT", 0.05)
    server = await serve(never if header_delay else start_and_wait, header_delay=header_delay)
    async with Caller(server) as first:
        await server.stage.worker.received.wait()
        reset(first.writer)
    async with asyncio.timeout(2):
        await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()
    await settled(server.stage)
    assert server.stage.idempotency.records == {}
    server.stage.worker.script = count
    async with Caller(server) as again:
        await again.reader.readuntil(DONE)
    assert len(server.stage.worker.jobs) == 2


async def test_a_reader_that_joins_after_the_beginning_was_dropped_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.MAX_BYTES", 700)
    held = Held()
    server = await serve(held)
    async with Caller(server) as first:
        await first.reader.readuntil(FIRST_TOKENS)
        held.go.set()
        await first.reader.readuntil(DONE)
    async with Caller(server) as late:
        assert b" 409 " in await late.reader.readline()


async def test_a_stopping_gateway_ends_runs_without_readers(serve: Serve) -> None:
    server = await serve(start_and_wait)
    async with Caller(server) as first:
        await first.reader.readuntil(FIRST_TOKENS)
        reset(first.writer)
    async with asyncio.timeout(5):
        await server.stage.gateway.idempotent.close()
    assert server.stage.idempotency.records == {}


async def test_the_stock_client_gets_the_replay(serve: Serve) -> None:
    server = await serve()
    client = server.client.with_options(default_headers={"Idempotency-Key": "from-the-sdk"})
    one = await client.chat.completions.create(model=MODEL, messages=HI)
    again = await client.chat.completions.create(model=MODEL, messages=HI)
    assert one == again
    streams = [
        await client.chat.completions.create(
            model=MODEL, messages=HI, stream=True, extra_headers={"Idempotency-Key": "streamed"}
        )
        for _ in range(2)
    ]
    chunks = [[chunk.model_dump() async for chunk in stream] for stream in streams]
    assert chunks[0] == chunks[1]
    with pytest.raises(openai.BadRequestError) as reused:
        await client.chat.completions.create(model=MODEL, messages=HI, seed=1)
    assert reused.value.code == "idempotency_key_reused"
    assert len(server.stage.worker.jobs) == 2
