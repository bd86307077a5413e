"""A shared response: every reader gets the whole body, within the limit of the buffer."""

from __future__ import annotations

import asyncio

import pytest

from gateway.answers import shared_response
from gateway.answers.shared_response import ResponseHead, ResponseRecorder, SharedResponse
from router.producer.errors import SlowClient

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}


def part(body: bytes, *, more: bool = True) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def test_readers_at_any_time_get_the_whole_body() -> None:
    response = SharedResponse()
    recorder = ResponseRecorder(b"{}", response)
    early = asyncio.create_task(response.wait_for_body())
    await recorder.send(START)
    await recorder.send(part(b"one"))
    assert (await response.started()).is_stream
    await recorder.send(part(b"two", more=False))
    assert response.is_complete
    response.end()
    assert await early == await response.wait_for_body() == b"onetwo"
    assert response.has_ended
    assert response.is_storable
    assert response.body.endswith(b"two")


async def test_comments_are_kept_apart_from_the_body() -> None:
    response = SharedResponse()
    recorder = ResponseRecorder(b"", response)
    await recorder.send(START)
    await recorder.send(part(b": queue position 3\n\n"))
    await recorder.send(part(b"", more=False))
    response.end()
    assert response.comment == b": queue position 3\n\n"
    assert await response.wait_for_body() == b""


async def test_readers_get_the_end_of_a_stream_when_the_response_has_ended() -> None:
    response = SharedResponse()
    recorder = ResponseRecorder(b"", response)
    await recorder.send(START)
    await recorder.send(part(b"data: 1\n\n"))
    await recorder.send(part(b"data: 2\n\ndata: [DONE]\n\n"))
    await recorder.send(part(b"", more=False))
    chunks = response.chunks()
    assert await anext(chunks) == b"data: 1\n\n"
    rest = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0.01)
    assert response.is_complete
    assert not rest.done()
    response.end()
    assert await rest == b"data: 2\n\ndata: [DONE]\n\n"


async def test_an_overlong_body_loses_its_beginning_for_slow_readers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_response, "MAX_BYTES", 4)
    response = SharedResponse()
    chunks = response.chunks()
    response.append(b"abc")
    assert await anext(chunks) == b"abc"
    response.append(b"def")
    assert not response.has_beginning
    assert not response.is_storable
    assert await anext(chunks) == b"def"
    with pytest.raises(SlowClient):
        await response.wait_for_body()


async def test_an_error_reaches_readers_and_the_first_end_counts() -> None:
    response = SharedResponse()
    response.end(RuntimeError("first"))
    response.end()
    with pytest.raises(RuntimeError, match="first"):
        await response.started()
    response.start(ResponseHead(200, {}))
    with pytest.raises(RuntimeError, match="first"):
        await response.wait_for_body()


async def test_without_readers_it_is_abandoned_and_its_route_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_response, "LINGER_TIMEOUT", 0.01)
    response = SharedResponse()
    recorder = ResponseRecorder(b"body", response)
    assert (await recorder.receive())["body"] == b"body"
    with response.reader():
        await asyncio.sleep(0.03)
        assert not response.abandoned.is_set()
    assert (await recorder.receive())["type"] == "http.disconnect"


async def test_parts_are_cut_anywhere_and_exclude_the_end_of_a_stream_that_has_not_ended() -> None:
    response = SharedResponse()
    recorder = ResponseRecorder(b"", response)
    await recorder.send(START)
    await recorder.send(part(b"data: 1\n\n"))
    await recorder.send(part(b"data: 2\n\n"))
    await recorder.send(part(b"data: [DONE]\n\n", more=False))
    assert response.part(0, 100) == b"data: 1\n\ndata: 2\n\n"
    assert response.part(3, 10) == b"a: 1\n\ndata"
    assert response.part(18, 100) == b""
    response.end()
    assert response.part(16, 100) == b"\n\ndata: [DONE]\n\n"
    assert response.part(response.received, 100) == b""


async def test_a_part_that_was_dropped_can_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_response, "MAX_BYTES", 5)
    response = SharedResponse()
    for chunk in (b"one", b"two", b"three"):
        response.append(chunk)
    assert response.part(6, 10) == b"three"
    with pytest.raises(SlowClient):
        response.part(5, 10)


async def test_a_stream_that_broke_off_has_no_end_and_is_not_stored() -> None:
    """Another run has taken its request over while its last chunk was on its way."""
    response = SharedResponse()
    recorder = ResponseRecorder(b"", response)
    await recorder.send(START)
    response.end(SlowClient())
    await recorder.send(part(b"data: 1\n\n"))
    await recorder.send(part(b"data: [DONE]\n\n", more=False))
    chunks = response.chunks()
    assert await anext(chunks) == b"data: 1\n\n"
    with pytest.raises(SlowClient):
        await anext(chunks)
    assert response.is_complete
    assert not response.is_lasting
    assert response.has_failed


@pytest.mark.parametrize("lingers", [True, False])
async def test_a_copy_does_not_linger_without_readers(lingers: bool) -> None:
    response = SharedResponse()
    response.lingers = lingers
    with response.reader():
        pass
    await asyncio.sleep(0.05)
    assert response.abandoned.is_set() is not lingers
