"""The gateway on a real port: OpenAI's client, disconnecting and slow clients, shutdown."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

import openai
import pytest

from gateway.http.server import BackgroundTaskDied, _accept_backlog, bind, serve_app
from gateway.settings import GatewaySettings
from router.messages import Delta, FailureCode, Finished, Job, Resume, ResumeDecision, ResumeRequest
from runtime.lifecycle import StartupError
from tests.fakes.scripted_worker import Script, ScriptedWorker, count, fail, flood, never, say, start_and_wait, usage
from tests.gateway.conftest import HI, KEY, MODEL, Serve, Served, answers, eventually, head, reset, stage


async def test_openai_client_whole_and_streamed(serve: Serve) -> None:
    server = await serve()
    whole = await server.client.chat.completions.create(model=MODEL, messages=HI, max_tokens=3)
    assert whole.choices[0].message.content == "0 1 2 "
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 3
    assert whole._request_id
    stream = await server.client.chat.completions.create(
        model=MODEL, messages=HI, n=2, stream=True, stream_options={"include_usage": True}
    )
    texts, last = ["", ""], None
    async for chunk in stream:
        last = chunk
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["0 1 2 3 4 "] * 2
    assert last is not None
    assert last.usage is not None
    assert last.usage.completion_tokens == 10


async def test_openai_clients_stream_helper_raises_no_error_with_several_choices(serve: Serve) -> None:
    server = await serve(say("a", "b"))
    async with server.client.chat.completions.stream(model=MODEL, messages=HI, n=3) as stream:
        final = await stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == ["ab"] * 3


async def test_openai_sync_client_and_the_other_endpoints(serve: Serve) -> None:
    server = await serve()

    def use() -> list[str]:
        with openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0) as client:
            chat = client.chat.completions.create(model=MODEL, messages=HI, stream=True)
            completion = client.completions.create(model=MODEL, prompt=["a", "b"], stream=True, max_tokens=2)
            whole = client.completions.create(model=MODEL, prompt="a", max_tokens=1)
            return [
                "".join(chunk.choices[0].delta.content or "" for chunk in chat),
                "".join(chunk.choices[0].text for chunk in completion if chunk.choices[0].index == 1),
                whole.choices[0].text,
                client.models.list().data[0].id,
                client.models.retrieve(MODEL).id,
            ]

    assert await asyncio.to_thread(use) == ["0 1 2 3 4 ", "0 1 ", "0 ", MODEL, MODEL]


async def test_openai_client_raises_its_own_exceptions(serve: Serve) -> None:
    server = await serve()
    with pytest.raises(openai.NotFoundError) as missing:
        await server.client.chat.completions.create(model="nobody", messages=HI)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        await server.client.chat.completions.create(model=MODEL, messages=HI, temperature=3)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.AuthenticationError):
        await server.sdk("hr_live_wrong").models.list()


def begin_with_token(worker: ScriptedWorker, job: Job) -> None:
    worker.begin(job, "a")
    worker.send_token(job, "a", 0, "0 ")


async def error_in_stream(server: Served, seen: asyncio.Event) -> str | None:
    """Stream an answer and set `seen` at its text; return the code of the error that ends it."""
    stream = await server.client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    with pytest.raises(openai.APIError) as broken:  # noqa: PT012 - the error comes after the first chunks
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                seen.set()
    return broken.value.code


async def test_failure_in_the_middle_of_a_stream_raises_in_the_client(serve: Serve) -> None:
    seen = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        begin_with_token(worker, job)
        await seen.wait()
        worker.send(job, Delta(job_id=job.id, attempt_id="a", start=5, token_ids=[5], text="5 "))

    server = await serve(script)
    assert await error_in_stream(server, seen) == "replies_lost"
    await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()


async def test_reasoning_without_token_ids_is_not_resumed_when_its_worker_is_lost(serve: Serve) -> None:
    seen, heard = asyncio.Event(), asyncio.Queue[object]()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        worker.begin(job, "a")
        worker.send(
            job,
            Delta(
                job_id=job.id, attempt_id="a", start=0, token_ids=[], untokenised_positions=1, text="0 ", reasoning="hm"
            ),
        )
        await seen.wait()
        worker.send(job, ResumeRequest(job_id=job.id, attempt_id="b"), worker="worker-2")

    server = await serve(script)

    async def listen() -> None:
        async for answer in await server.stage.worker.bus.controls(["worker.worker-2"]):
            heard.put_nowait(answer)

    listening = asyncio.create_task(listen())
    assert await error_in_stream(server, seen) == "worker_lost"
    answer = await heard.get()
    assert isinstance(answer, Resume)
    assert answer.decision is ResumeDecision.GONE
    listening.cancel()


async def test_comments_are_sent_while_waiting_and_ignored_by_the_client(serve: Serve) -> None:
    go = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        await go.wait()
        await count(worker, job)

    server = await serve(script, header_delay=0.0, ping_interval=0.02)
    reader, writer = await server.post(stream=True)
    assert b" 200 " in await reader.readline()
    await reader.readuntil(b": ping\n\n")
    await reader.readuntil(b": ping\n\n")
    go.set()
    await reader.readuntil(b"data: [DONE]\n\n")
    writer.close()


async def test_there_are_no_comments_between_tokens(serve: Serve) -> None:
    async def script(worker: ScriptedWorker, job: Job) -> None:
        worker.begin(job, "a")
        for token in range(10):
            worker.send(job, Delta(job_id=job.id, attempt_id="a", start=token, token_ids=[token], text=f"{token} "))
            await asyncio.sleep(0.1)
        await asyncio.Event().wait()

    server = await serve(script, ping_interval=0.6)
    reader, writer = await server.post(stream=True)
    assert b": ping" not in await reader.readuntil(b'"content":"9 "')
    await reader.readuntil(b": ping\n\n")
    writer.close()


@pytest.mark.parametrize("leave", [reset, asyncio.StreamWriter.close], ids=["reset", "close"])
async def test_a_disconnect_from_a_stream_cancels_its_job(
    serve: Serve, leave: Callable[[asyncio.StreamWriter], None]
) -> None:
    server = await serve(start_and_wait, ping_interval=60.0)  # no ping notices it
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"content":"0 1 "')
    leave(writer)
    async with asyncio.timeout(20):
        await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()
    await eventually(lambda: len(server.stage.gateway.inbox) == 0)
    job, late = server.stage.worker.jobs[0], server.stage.gateway.metrics.tokens_after_disconnect
    server.stage.worker.send(job, Delta(job_id=job.id, attempt_id="a", start=2, token_ids=[7, 8, 9]))
    await eventually(lambda: late._value.get() == 3)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("script", [never, start_and_wait])
async def test_a_disconnect_before_the_answer_cancels_the_job(serve: Serve, script: Script, stream: bool) -> None:
    server = await serve(script, header_delay=60.0, ping_interval=60.0)
    _, writer = await server.post(stream=stream)
    await server.stage.worker.received.wait()
    reset(writer)
    async with asyncio.timeout(20):
        await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()
    await eventually(lambda: len(server.stage.gateway.inbox) == 0)


async def test_a_client_that_disconnects_after_the_last_token_is_billed_in_full(serve: Serve) -> None:
    server = await serve()
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"finish_reason":"length"')
    reset(writer)
    outcomes = server.stage.gateway.metrics.outcomes
    await eventually(lambda: outcomes.labels(MODEL, "finished")._value.get() == 1)
    assert not server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).is_set()


async def test_a_client_that_disconnects_within_its_body_is_not_billed(serve: Serve) -> None:
    server = await serve()
    _, writer = await server.connect()
    writer.write(head(100) + b'{"model"')
    await writer.drain()
    reset(writer)
    requests = server.stage.gateway.metrics.requests
    await eventually(lambda: requests.labels("/v1/chat/completions", "POST", "499")._value.get() == 1)
    assert server.stage.worker.jobs == []


FLOOD = flood(65536, pause=0.001)


async def test_text_that_was_not_sent_before_a_disconnect_is_not_billed(serve: Serve) -> None:
    server = await serve(FLOOD, max_unread_bytes=2**40)
    _, writer = await server.post(stream=True)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await server.stage.worker.received.wait()
    unread = next(iter(server.stage.gateway.inbox._jobs.values())).unread
    given = server.stage.gateway.metrics.tokens.labels(MODEL)
    await eventually(lambda: unread._bytes > 2**22)  # it can't be written any more
    sent = given._value.get()
    writer.transport.abort()
    await eventually(lambda: len(server.stage.receipts) == 1)
    assert server.stage.receipts[0].usage.completion_tokens == sent > 0


async def test_a_client_that_does_not_read_is_disconnected_after_a_timeout(serve: Serve) -> None:
    server = await serve(FLOOD, send_timeout=0.2, max_unread_bytes=2**40)
    _, writer = await server.post(stream=True)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await server.stage.worker.received.wait()
    await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()
    outcomes = server.stage.gateway.metrics.outcomes
    await eventually(lambda: outcomes.labels(MODEL, "SlowClient")._value.get() == 1)
    writer.transport.abort()


async def test_a_client_that_does_not_read_is_disconnected_above_a_size(serve: Serve) -> None:
    server = await serve(FLOOD)
    _, writer = await server.post(stream=True)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await server.stage.worker.received.wait()
    unread = next(iter(server.stage.gateway.inbox._jobs.values())).unread
    await eventually(lambda: type(unread._error).__name__ == "SlowClient")
    assert unread._bytes <= 2**20 + 2**17
    writer.transport.abort()
    await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()


async def test_an_endless_body_times_out(serve: Serve) -> None:
    server = await serve(body_timeout=0.2, max_body_bytes=1000)
    for start, status in ((head(500) + b"{", b"408"), (head(5_000_000), b"413")):
        reader, writer = await server.connect()
        writer.write(start)
        answer = await reader.read()
        assert answer.split(b" ", 2)[1] == status
        assert b"connection: close" in answer.lower()
        writer.close()
    chunked = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    reader, writer = await server.connect()
    writer.write(chunked + b"3e9\r\n" + b"x" * 1001 + b"\r\n")
    assert b" 413 " in await reader.readline()
    writer.close()


async def test_every_response_has_the_common_headers(serve: Serve) -> None:
    server = await serve()
    client = server.client
    for response in (
        await client.chat.completions.with_raw_response.create(
            model=MODEL, messages=HI, extra_headers={"X-Client-Request-Id": "mine-1"}
        ),
        await client.models.with_raw_response.list(extra_headers={"X-Client-Request-Id": "mine-1"}),
    ):
        headers = response.headers
        assert headers["x-request-id"].startswith("req_")
        assert headers["x-client-request-id"] == "mine-1"
        assert headers["openai-version"]
        assert int(headers["openai-processing-ms"]) >= 0
        assert "server" not in headers


async def test_shutdown_lets_streams_end_and_accepts_no_new_requests(serve: Serve) -> None:
    go = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        begin_with_token(worker, job)
        await go.wait()
        worker.send(job, Delta(job_id=job.id, attempt_id="a", start=1, token_ids=[1], text="1 ", finish_reason="stop"))
        worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=usage(job, 2)))

    server = await serve(script, shutdown_grace=60.0)
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"content":"0 "')
    server.stop.set()
    await eventually(lambda: not answers(server.port))
    go.set()
    rest = await reader.read()
    assert b'"content":"1 "' in rest
    assert rest.rstrip().endswith((b"data: [DONE]", b"0"))
    await server.serving
    writer.close()


async def test_connections_made_before_the_shutdown_are_answered(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.http.http_protocol.STOPPING_GRACE", 20.0)
    server = await serve(shutdown_grace=60.0)
    _, silent = await server.connect()
    reader, writer = await server.post(stream=False)
    await reader.readuntil(b"}}}")
    server.stop.set()
    await eventually(lambda: not answers(server.port))
    body = json.dumps({"model": MODEL, "messages": HI}).encode()
    writer.write(head(len(body)) + body)
    assert b" 200 " in await reader.read()
    silent.close()
    await server.serving
    writer.close()


def test_connections_in_the_backlog_are_accepted_at_shutdown() -> None:
    listener = bind("127.0.0.1", 0)
    listener.setblocking(False)
    waiting = [socket.create_connection(listener.getsockname(), timeout=20) for _ in range(3)]
    taken = _accept_backlog(listener)
    assert {each.getpeername() for each in taken} == {each.getsockname() for each in waiting}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname(), timeout=20)
    for each in (listener, *waiting, *taken):
        each.close()


async def test_streams_that_outlast_the_grace_period_end_with_an_error(serve: Serve) -> None:
    server = await serve(start_and_wait, shutdown_grace=0.1)
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"content":"0 1 "')
    whole = asyncio.create_task(server.stage.chat())
    await eventually(lambda: len(server.stage.gateway.inbox) == 2)
    server.stop.set()
    assert b'"code":"server_shutdown"' in await reader.read()
    assert (await whole).status_code == 503
    await server.serving
    for job in server.stage.worker.jobs:
        await server.stage.worker.cancel_of(job.id).wait()
    writer.close()


async def test_a_port_in_use_is_reported_in_one_line() -> None:
    async with stage() as set_up:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            settings = GatewaySettings(port=port)
            with pytest.raises(StartupError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
                await serve_app(set_up.app, settings, asyncio.Event())
    assert "\n" not in str(caught.value)


def test_an_address_that_is_not_local_is_reported_in_one_line() -> None:
    with pytest.raises(StartupError, match="cannot listen on"):
        bind("192.0.2.1", 0)


async def test_openai_client_reports_a_failed_job(serve: Serve) -> None:
    server = await serve(fail(FailureCode.ENGINE_ERROR, "The engine failed."))
    with pytest.raises(openai.InternalServerError, match="The engine failed"):
        await server.client.chat.completions.create(model=MODEL, messages=HI, stream=True)


async def test_the_server_stops_when_a_background_task_has_died(serve: Serve) -> None:
    server = await serve()
    server.stage.gateway.failed.set()
    with pytest.raises(BackgroundTaskDied):
        await asyncio.wait_for(asyncio.shield(server.serving), 10)
    assert not answers(server.port)
    server.serving = asyncio.create_task(asyncio.sleep(0))
