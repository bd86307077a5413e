"""Tests of the load generator: it records a stream's times and every failure."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks import client
from benchmarks.client import Endpoint
from benchmarks.measures import Timeline
from benchmarks.workloads import Request

ENDPOINT = Endpoint("http://test/v1", "key", "model")
REQUEST = Request([5, 6], 4)


def stream(*texts: str, tokens: int, end: str = "data: [DONE]\n\n") -> str:
    events: list[dict[str, object]] = [{"choices": [{"text": text}]} for text in texts]
    events.append({"choices": [], "usage": {"completion_tokens": tokens}})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + end


async def seen(status: int, body: str, asked: dict[str, object] | None = None, request: Request = REQUEST) -> Timeline:
    async def answer(received: web.Request) -> web.Response:
        (asked if asked is not None else {}).update(await received.json())
        return web.Response(status=status, text=body)

    app, timeline = web.Application(), Timeline(0.0)
    app.router.add_post("/v1/completions", answer)
    async with TestServer(app) as server, client.open_session(ENDPOINT) as http:
        there = Endpoint(str(server.make_url("/v1")), "key", "model")
        await client.complete(http, there, request, timeline)
    return timeline


async def test_chunks_with_content_count_and_tokens_come_from_usage() -> None:
    asked: dict[str, object] = {}
    timeline = await seen(200, stream("", "a", "", "bc", tokens=4), asked)
    assert timeline.succeeded
    assert (len(timeline.chunks), timeline.output_tokens) == (2, 4)
    assert timeline.accepted is not None
    assert timeline.accepted <= timeline.chunks[0]
    assert (asked["prompt"], asked["max_tokens"], asked["ignore_eos"], asked["stream"]) == ([5, 6], 4, True, True)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (429, "slow down", "429"),
        (200, 'data: {"error": {"message": "engine died"}}\n\ndata: [DONE]\n\n', "engine died"),
        (200, stream("a", tokens=1, end=""), "without"),
    ],
)
async def test_a_failure_is_an_error(status: int, body: str, said: str) -> None:
    timeline = await seen(status, body)
    assert not timeline.succeeded
    assert said in (timeline.error or "")


async def test_a_request_is_sampled_at_its_temperature() -> None:
    asked: dict[str, object] = {}
    await seen(200, stream("a", tokens=4), asked, Request([5, 6], 4, temperature=0.7))
    assert asked["temperature"] == 0.7


async def test_nobody_there_is_an_error(unused_tcp_port: int) -> None:
    timeline = Timeline(0.0)
    async with client.open_session(ENDPOINT) as http:
        unreachable = Endpoint(f"http://127.0.0.1:{unused_tcp_port}/v1", "key", "model")
        await client.complete(http, unreachable, Request([5, 6], 4), timeline)
    assert "Connect" in (timeline.error or "")


async def test_a_closed_loop_sends_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    async def complete(_http: object, _endpoint: Endpoint, request: Request, _timeline: Timeline) -> None:
        sent.append(request.output_tokens)

    monkeypatch.setattr(client, "complete", complete)
    timelines = await client.closed_loop(ENDPOINT, [Request([1], n) for n in range(1, 8)], clients=3)
    assert sorted(sent) == list(range(1, 8))
    assert len(timelines) == 7
