"""Clients that disconnect, stop half-way or do not read, by raw sockets: their cost, and no effect on other clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.http.server import SEND_BUFFER_BYTES, bind
from router.messages import Delta, Job, Outcome, Started, Usage
from tests.fakes.scripted_worker import ScriptedWorker, count, flood, never, start_and_wait
from tests.gateway.conftest import MODEL, Serve, Served, eventually, head, reset

SLOW = 10


async def one_by_one(worker: ScriptedWorker, job: Job) -> None:
    """A script that sends a token whenever the client has confirmed the previous one by `worker.received`."""
    worker.send(job, Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=5))
    for token in range(100):
        worker.send(job, Delta(job_id=job.id, attempt_id="a", start=token, token_ids=[token], text=f"{token} "))
        await asyncio.wait({asyncio.create_task(worker.cancel_of(job.id).wait())}, timeout=0.02)


async def until_the_last_token(worker: ScriptedWorker, job: Job) -> None:
    """A script that sends all tokens, and the end after the client has disconnected."""
    worker.send(job, Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=5))
    worker.send(
        job, Delta(job_id=job.id, attempt_id="a", start=0, token_ids=[0, 1, 2], text="0 1 2 ", finish_reason="stop")
    )
    await worker.cancel_of(job.id).wait()


async def gone(server: Served) -> tuple[Outcome, Usage]:
    """Wait until a disconnect is handled: job cancelled, slot freed, receipt published."""
    await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()
    await eventually(lambda: len(server.stage.gateway.inbox) == 0 and bool(server.stage.receipts))
    assert server.stage.gateway.queues.report({}).queues == []
    [receipt] = server.stage.receipts
    return receipt.outcome, receipt.usage


async def test_a_reset_after_the_headers_costs_nothing(serve: Serve) -> None:
    server = await serve(never, header_delay=0.0)
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b"\r\n\r\n")
    reset(writer)
    assert await gone(server) == (Outcome.CANCELLED, Usage(prompt_tokens=0))


async def test_a_reset_after_three_chunks_costs_what_was_given_out(serve: Serve) -> None:
    server = await serve(one_by_one)
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"content":"2 "')
    reset(writer)
    outcome, paid = await gone(server)
    assert (outcome, paid.prompt_tokens) == (Outcome.CANCELLED, 5)
    assert 3 <= paid.completion_tokens < 100


async def test_a_reset_between_the_last_token_and_done_costs_all_of_them(serve: Serve) -> None:
    server = await serve(until_the_last_token)
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"content":"0 1 2 "')
    reset(writer)
    assert await gone(server) == (Outcome.CANCELLED, Usage(prompt_tokens=5, completion_tokens=3))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_half_closed_connection_counts_as_a_disconnect(serve: Serve, stream: bool) -> None:
    """A half-closed client might still read, but that can't be told apart from a disconnect."""
    server = await serve(start_and_wait)
    reader, writer = await server.post(stream=stream)
    await server.stage.worker.received.wait()
    if stream:
        await reader.readuntil(b'"content":"0 1 "')
    writer.write_eof()
    outcome, _ = await gone(server)
    assert outcome is Outcome.CANCELLED
    assert b"[DONE]" not in await reader.read()
    writer.close()


async def test_an_incomplete_request_costs_nothing(serve: Serve) -> None:
    server = await serve()
    for part in (b"", b"POST /v1/chat", head(100), head(100) + b'{"model"'):
        reader, writer = await server.connect()
        writer.write(part)
        writer.write_eof()
        assert b" 200 " not in await reader.read()
        writer.close()
    assert server.stage.worker.jobs == []
    await eventually(lambda: len(server.stage.gateway.unauthenticated) == 0)


@asynccontextmanager
async def many_that_do_not_read(server: Served) -> AsyncIterator[None]:
    """Streams whose clients read a few kilobytes and then nothing."""
    loop, sockets = asyncio.get_running_loop(), []
    body = b'{"model": "%s", "stream": true, "messages": [{"role": "user", "content": "slow"}]}' % MODEL.encode()
    for _ in range(SLOW):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        sockets.append(sock)
        await loop.sock_connect(sock, ("127.0.0.1", server.port))
        await loop.sock_sendall(sock, head(len(body)) + body)
    try:
        yield
    finally:
        for sock in sockets:
            sock.close()


async def test_clients_that_do_not_read_are_disconnected_without_affecting_other_clients(serve: Serve) -> None:
    """Buffers stay within the settings, and a client that reads gets its whole answer."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        if str(getattr(job.prompt, "messages", "")).find("slow") < 0:
            await count(worker, job)
            return
        await flood(8192, pause=0.01)(worker, job)

    server = await serve(script, send_timeout=1.0, max_unread_bytes=64 * 1024)
    kept = server.stage.gateway.inbox._jobs
    async with many_that_do_not_read(server):
        await eventually(lambda: len(server.stage.worker.jobs) == SLOW)
        answers = [(await server.client.chat.completions.create(model=MODEL, messages=[hi])) for hi in CANARY]
        assert {answer.choices[0].message.content for answer in answers} == {"0 1 2 3 4 "}
        assert all(job.unread._bytes <= 64 * 1024 + 8192 + 1024 for job in kept.values())
        async with asyncio.timeout(30):
            for job in [each for each in server.stage.worker.jobs if "slow" in str(each.prompt)]:
                await server.stage.worker.cancel_of(job.id).wait()
        outcomes = server.stage.gateway.metrics.outcomes
        async with asyncio.timeout(30):
            while outcomes.labels(MODEL, "SlowClient")._value.get() < SLOW:
                await asyncio.sleep(0.01)


CANARY: list[Any] = [{"role": "user", "content": f"hi {number}"} for number in range(3)]


def test_the_kernel_buffers_little_unread_data() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()) as client:
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * SEND_BUFFER_BYTES
        client.close()
