"""What the client notes of a stream, and that it never hides a failure."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from benchmarks import client
from benchmarks.client import Endpoint
from benchmarks.measures import Timeline
from benchmarks.workloads import Request

ENDPOINT = Endpoint("http://test/v1", "key", "model")


def stream(*texts: str, tokens: int, end: str = "data: [DONE]\n\n") -> str:
    events: list[dict[str, object]] = [{"choices": [{"text": text}]} for text in texts]
    events.append({"choices": [], "usage": {"completion_tokens": tokens}})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + end


async def seen(handler: Callable[[httpx.Request], httpx.Response]) -> Timeline:
    timeline = Timeline(0.0)
    async with httpx.AsyncClient(base_url=ENDPOINT.base_url, transport=httpx.MockTransport(handler)) as http:
        await client.complete(http, ENDPOINT, Request([5, 6], 4), timeline)
    return timeline


async def test_chunks_with_content_count_and_tokens_come_from_usage() -> None:
    asked = {}

    def handler(request: httpx.Request) -> httpx.Response:
        asked.update(json.loads(request.content))
        return httpx.Response(200, text=stream("", "a", "", "bc", tokens=4))

    timeline = await seen(handler)
    assert timeline.succeeded
    assert (len(timeline.chunks), timeline.output_tokens) == (2, 4)
    assert (asked["prompt"], asked["max_tokens"], asked["ignore_eos"], asked["stream"]) == ([5, 6], 4, True, True)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (httpx.Response(429, text="slow down"), "429"),
        (httpx.Response(200, text='data: {"error": {"message": "engine died"}}\n\ndata: [DONE]\n\n'), "engine died"),
        (httpx.Response(200, text=stream("a", tokens=1, end="")), "without"),
    ],
)
async def test_a_failure_is_an_error(response: httpx.Response, said: str) -> None:
    timeline = await seen(lambda _: response)
    assert not timeline.succeeded
    assert said in (timeline.error or "")


async def test_a_lost_connection_is_an_error() -> None:
    def handler(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("gone")

    assert "gone" in ((await seen(handler)).error or "")


async def test_a_closed_loop_sends_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    async def complete(_http: object, _endpoint: Endpoint, request: Request, _timeline: Timeline) -> None:
        sent.append(request.output_tokens)

    monkeypatch.setattr(client, "complete", complete)
    timelines = await client.closed_loop(ENDPOINT, [Request([1], n) for n in range(1, 8)], clients=3)
    assert sorted(sent) == list(range(1, 8))
    assert len(timelines) == 7
