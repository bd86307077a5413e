"""Generates load of streamed completions on any OpenAI-compatible server, as a closed loop or an open loop.

Prompts are token ids, so that every server computes the same. Tokens are counted from `usage`; chunks may carry
several. Times are `time.perf_counter()` seconds. The client shares its cores with the server, so it uses aiohttp, which
parses HTTP in C.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from benchmarks.measures import Timeline
from benchmarks.workloads import Request

_DATA = b"data: "
_DONE = b"[DONE]"


@dataclass(frozen=True)
class Endpoint:
    """The server to load; `base_url` ends in `/v1`."""

    base_url: str
    api_key: str
    model: str


def open_session(endpoint: Endpoint) -> aiohttp.ClientSession:
    """Create an HTTP session for the server `endpoint`, without a timeout.

    Each request opens its own connection, because some servers close theirs.
    """
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {endpoint.api_key}"},
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
    )


async def complete(http: aiohttp.ClientSession, endpoint: Endpoint, request: Request, timeline: Timeline) -> None:
    """Run one streamed completion on the server `endpoint`, and record its times in `timeline`.

    The completion ignores the end of sequence. An error is recorded in the timeline too.
    """
    body = {
        "model": endpoint.model,
        "prompt": request.prompt_ids,
        "max_tokens": request.output_tokens,
        "temperature": request.temperature,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        async with http.post(f"{endpoint.base_url}/completions", json=body) as answer:
            if answer.status != HTTPStatus.OK:
                timeline.error = f"{answer.status} {(await answer.read())[:200]!r}"
                return
            timeline.accepted = time.perf_counter()
            unread = b""
            async for data in answer.content.iter_any():
                *events, unread = (unread + data).split(b"\n\n")
                now = time.perf_counter()
                for event in events:
                    _record(event, now, timeline)
    except aiohttp.ClientError as error:
        timeline.error = f"{type(error).__name__}: {error}"
    if timeline.finished is None and timeline.error is None:
        timeline.error = "the stream ended without [DONE]"


def _record(event: bytes, now: float, timeline: Timeline) -> None:
    if not event.startswith(_DATA):
        return
    data = event[len(_DATA) :]
    if data == _DONE:
        timeline.finished = now
        return
    chunk: dict[str, Any] = msgspec.json.decode(data)
    if "error" in chunk:
        timeline.error = str(chunk["error"])
        return
    if any(choice.get("text") for choice in chunk.get("choices", ())):
        timeline.chunks.append(now)
    if usage := chunk.get("usage"):
        timeline.output_tokens = usage["completion_tokens"]


async def closed_loop(endpoint: Endpoint, requests: Sequence[Request], clients: int) -> list[Timeline]:
    """Send requests to a server from `clients` concurrent clients, each its next one when its last has ended.

    Returns the timelines of the requests.
    """
    timelines: list[Timeline] = []
    waiting = iter(requests)

    async with open_session(endpoint) as http:

        async def one_client() -> None:
            for request in waiting:
                timelines.append(Timeline(time.perf_counter()))
                await complete(http, endpoint, request, timelines[-1])

        await asyncio.gather(*(one_client() for _ in range(clients)))
    return timelines


async def open_loop(endpoint: Endpoint, requests: Sequence[Request], arrivals: Sequence[float]) -> list[Timeline]:
    """Send each request to a server at its time in `arrivals` (seconds from now), whether or not others have ended.

    Returns timelines that begin when the requests were due.
    """
    begin = time.perf_counter()

    async with open_session(endpoint) as http:

        async def one(request: Request, due: float) -> Timeline:
            await asyncio.sleep(begin + due - time.perf_counter())
            timeline = Timeline(begin + due)
            await complete(http, endpoint, request, timeline)
            return timeline

        return await asyncio.gather(*(one(*each) for each in zip(requests, arrivals, strict=True)))


async def under_load(
    endpoint: Endpoint, streams: Sequence[Request], probes: Sequence[Request], gaps: Sequence[float]
) -> list[Timeline]:
    """Send probes to a server one by one while `streams` run, number i `gaps[i]` seconds after the last has ended.

    Returns the timelines of the probes.

    Raises:
        ValueError: a stream failed, or ended before the last probe.
    """
    async with open_session(endpoint) as http:
        background = [Timeline(time.perf_counter()) for _ in streams]
        running = [
            asyncio.create_task(complete(http, endpoint, request, timeline))
            for request, timeline in zip(streams, background, strict=True)
        ]
        try:
            # Polling costs less than one event object per stream.
            while not all(timeline.chunks or timeline.error for timeline in background):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            timelines = []
            for probe, gap in zip(probes, gaps, strict=True):
                await asyncio.sleep(gap)
                timelines.append(Timeline(time.perf_counter()))
                await complete(http, endpoint, probe, timelines[-1])
            if any(task.done() for task in running):
                raise ValueError("a background stream ended before the last probe: give them more tokens")
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    return timelines
