"""Malformed HTTP against a real server: framing, endless heads and bodies, request targets."""

from __future__ import annotations

import asyncio
import json
import time
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.fakes.scripted_worker import start_and_wait
from tests.gateway.conftest import HI, KEY, MODEL, Serve, Served, eventually, head

BODY = json.dumps({"model": MODEL, "messages": HI}).encode()
CHAT = head(len(BODY))
CHUNKED = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes
    whole: bytes


async def answer_to(server: Served, sent: bytes) -> Answer:
    """Send, read until the connection is closed by the server, and take the first answer."""
    reader, writer = await server.connect()
    whole = b""
    try:
        writer.write(sent)
        async with asyncio.timeout(10):
            while part := await reader.read(2**16):
                whole += part
    except ConnectionError:
        pass  # closed while there was more to read: what came before counts
    writer.close()
    first, _, body = whole.partition(b"\r\n\r\n")
    return Answer(int(first.split(b" ", 2)[1]) if first else 0, first.lower(), body, whole)


def lengths(*values: str) -> bytes:
    return head(0).replace(b"Content-Length: 0", b"\r\n".join(f"Content-Length: {value}".encode() for value in values))


MALFORMED = {
    "nonsense": b"nonsense\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
    "a CR in an idempotency key": CHAT.replace(b"Host", b"Idempotency-Key: a\rb\r\nHost") + BODY,
    "a CR in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rc: d\r\n\r\n",
    "a space before the colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "a header without a name": b"GET /healthz HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
    "a header without a colon": b"GET /healthz HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n",
    "a target that is not ASCII": b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header of 1 MB": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "a target of 1 MB": b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": lengths("1", "2"),
    "two lengths in one": lengths("1, 2"),
    **{f"a length of {value!r}": lengths(value) for value in ("-1", "+1", "1.0", "0x10", "1e3", "", "abc", "1 1")},
    "a length and chunks": CHUNKED.replace(b"Host", b"Content-Length: 5\r\nHost") + b"0\r\n\r\n" + SMUGGLED,
    "chunks and a length": lengths("0\r\nTransfer-Encoding: chunked") + b"0\r\n\r\n" + SMUGGLED,
    "chunked twice": CHUNKED.replace(b"chunked", b"chunked, chunked") + b"0\r\n\r\n",
    "an unknown coding": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    "chunked in disguise": CHUNKED.replace(b"chunked", b"xchunked") + b"0\r\n\r\n",
    "a chunk of negative size": CHUNKED + b"-1\r\n",
    "a chunk of no size": CHUNKED + b"zz\r\n",
    "a chunk whose size is 1 MB long": CHUNKED + b"0" * 1_000_000,
    "a chunk that is longer than it says": CHUNKED + b"1\r\nxx\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_http_is_400_in_openais_shape_and_closed(serve: Serve, sent: bytes) -> None:
    server = await serve()
    with capture_logs() as logs:
        answer = await answer_to(server, sent)
    if answer.status:  # a reset may overtake the answer to a client that is still sending
        assert answer.status == 400
        assert b"connection: close" in answer.head
        assert b"x-request-id: req_" in answer.head
        error = json.loads(answer.body)["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    assert answer.whole.count(b"HTTP/1.1 ") <= 1
    assert server.stage.worker.jobs == []
    assert server.stage.accounts.asked in ([], [KEY])
    assert all(line["log_level"] not in ("error", "critical") for line in logs)
    assert (await answer_to(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).status == 200


async def test_a_thousand_headers_are_refused(serve: Serve) -> None:
    server = await serve()
    many = b"".join(f"x-{number}: 1\r\n".encode() for number in range(1000))
    answer = await answer_to(server, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + many + b"Connection: close\r\n\r\n")
    assert answer.status in (400, 431)
    assert server.stage.accounts.asked == []


@pytest.mark.parametrize("host", [b"x/v1/public?", b"a#b", b"", b"/healthz", b"a b", b"user@host"])
async def test_a_host_header_cannot_bypass_authentication(serve: Serve, host: bytes) -> None:
    server = await serve()
    request = b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    assert (await answer_to(server, request)).status == 400
    assert server.stage.accounts.asked == []


@pytest.mark.parametrize(
    "target",
    [b"http://evil/v1/models", b"//evil/v1/models", b"*", b"/v1/../v1/models", b"/v1/./models", b"\\v1\\models"],
)
async def test_a_request_target_must_be_a_path(serve: Serve, target: bytes) -> None:
    server = await serve()
    answer = await answer_to(server, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.status == 404
    assert json.loads(answer.body)["error"]["code"] == "unknown_url"


async def test_data_behind_a_body_is_not_parsed_as_a_request(serve: Serve) -> None:
    server = await serve()
    answer = await answer_to(server, head(len(BODY) - 1) + BODY + b"\r\n\r\n")
    assert answer.status == 400
    assert b'"code":"invalid_json"' in answer.whole
    assert b'"code":"malformed_http"' in answer.whole  # what is left
    assert server.stage.worker.jobs == []


async def test_a_body_shorter_than_its_content_length_times_out(serve: Serve) -> None:
    server = await serve(body_timeout=0.1)
    answer = await answer_to(server, head(len(BODY) + 1) + BODY)
    assert answer.status == 408
    assert b"connection: close" in answer.head
    assert server.stage.worker.jobs == []


async def test_data_behind_a_refused_body_is_not_parsed_as_a_request(serve: Serve) -> None:
    """An unauthenticated caller's body is not read, so no part of it may be parsed as the next request."""
    server = await serve()
    stranger = CHAT.replace(KEY.encode(), b"hr_live_unknown").replace(str(len(BODY)).encode(), b"35")
    answer = await answer_to(server, stranger + SMUGGLED)
    assert answer.status == 401
    assert answer.whole.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(("chunk", "status"), [(b"1\r\nx\r\n", 408), (b"10000\r\n" + b"x" * 65536 + b"\r\n", 413)])
async def test_endless_chunked_bodies_are_refused(serve: Serve, chunk: bytes, status: int) -> None:
    server = await serve(body_timeout=0.5 if status == 408 else 60.0)
    reader, writer = await server.connect()
    writer.write(CHUNKED)

    async def pour() -> None:
        while not writer.is_closing():
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0.02 if len(chunk) < 100 else 0)

    pouring = asyncio.create_task(pour())
    async with asyncio.timeout(30):
        assert (await reader.readline()).split(b" ", 2)[1] == str(status).encode()
    pouring.cancel()
    await asyncio.gather(pouring, return_exceptions=True)
    writer.close()
    assert server.stage.worker.jobs == []


@pytest.mark.parametrize("begun", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nA"])
async def test_an_unfinished_request_times_out(serve: Serve, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.http.http_protocol.HEAD_TIMEOUT", 0.1)
    monkeypatch.setattr("gateway.http.server.KEEP_ALIVE_TIMEOUT", 0.1)
    server = await serve()
    reader, writer = await server.connect()
    writer.write(begun)
    async with asyncio.timeout(20):
        whole = await reader.read()
    assert whole.split(b" ", 2)[1:2] == ([b"408"] if begun else [])
    writer.close()


async def test_slow_headers_are_accepted_within_the_timeout(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.http.http_protocol.HEAD_TIMEOUT", 1.0)
    server = await serve(start_and_wait)
    reader, writer = await server.connect()
    request = head(len(BODY) + 14) + BODY.replace(b'"messages"', b'"stream":true,"messages"')
    writer.write(request[:40])
    await asyncio.sleep(0.05)
    writer.write(request[40:])
    await reader.readuntil(b'"content":"0 1 "')
    await asyncio.sleep(1.2)  # past the limit: what is timed is the head, not the request
    assert not reader.at_eof()
    writer.close()
    await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()


async def test_garbage_behind_a_streaming_request_does_not_break_its_stream(serve: Serve) -> None:
    server = await serve(start_and_wait, ping_interval=0.02)
    reader, writer = await server.connect()
    writer.write(head(len(BODY) + 14) + BODY.replace(b'"messages"', b'"stream":true,"messages"'))
    await reader.readuntil(b'"content":"0 1 "')
    writer.write(b"\x00garbage\r\n\r\n" * 10)
    await asyncio.sleep(0.05)
    assert not reader.at_eof()
    writer.close()
    await server.stage.worker.cancel_of(server.stage.worker.jobs[0].id).wait()
    await eventually(lambda: len(server.stage.gateway.inbox) == 0)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (b'application/json; a="' + b";" * 30_000, 415),
        (b"application/json" + b";" * 30_000, 415),
        (b"application/json; charset*=a; charset*0=b", 415),
        (b"application/json; charset*=utf-8''%ff", 415),
        (b'application/json;; A=b ;Charset="UTF-8"', 200),
    ],
)
async def test_a_hostile_content_type_costs_no_time_and_no_error(
    serve: Serve, content_type: bytes, status: int
) -> None:
    server = await serve()
    request = CHAT.replace(b"application/json", content_type + b"\r\nConnection: close") + BODY
    began = time.process_time()
    answer = await answer_to(server, request)
    assert answer.status == status
    assert time.process_time() - began < 0.25  # 0.5 s and more in `email.message`


async def test_hostile_schemas_are_refused_before_they_delay_other_requests(serve: Serve) -> None:
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(1_600)}
    schemas: list[dict[str, object]] = [
        {"$defs": {**chain, "d1600": {}}},
        {"anyOf": [{"pattern": "([" * 1_024}] * 60 + [{"type": "text"}]},
        {"properties": {"x" * 60_000: {"properties": {f"a{number}": {"type": "text"} for number in range(2_000)}}}},
    ]
    server = await serve()
    for schema in schemas:
        tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
        body = json.dumps({"model": MODEL, "messages": HI, "tools": tools}).encode()
        began = time.process_time()
        answer = await answer_to(server, head(len(body), b"Connection: close\r\n") + body)
        assert answer.status == 400
        assert "schema" in json.loads(answer.body)["error"]["message"]
        assert len(answer.body) < 1_000
        assert time.process_time() - began < 0.25  # 0.9 s for the chain, 1.5 s for the patterns, when quadratic
