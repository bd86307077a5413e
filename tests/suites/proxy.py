"""A proxy between the tests of a client library and the gateway.

The tests name models and objects by literals (`file_id`, `gpt-6-astra`). For each request the proxy creates the objects
through the public API and puts their ids in; it also sends the request with the literal in its path, and the gateway
must not find the object, as none of that name was created. A field that the gateway refuses by name is left out, and
recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.suites.call import Call, call_of
from tests.suites.objects import Objects
from tests.suites.record import Recorder, Refusal

Preparation = Callable[[Objects, Call], Awaitable[None]]
"""Puts models and ids of created objects into a call."""

RECORDER = "/recorder"
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
NOT_FORWARDED = {
    "host",
    "authorization",
    "x-api-key",
    "content-length",
    "connection",
    "accept-encoding",
    "transfer-encoding",
}
MAX_LEFT_OUT = 64
NOT_FOUND = (404, 405)
"""Answers to a request for an object that was never created: there is none, or none has such a method."""


class SuiteProxy:
    """The proxy as an ASGI application. `client` reaches the gateway with a key of the project."""

    def __init__(self, client: httpx.AsyncClient, objects: Objects, preparations: Mapping[str, Preparation]) -> None:
        self.recorder = Recorder()
        self._client, self._objects, self._preparations = client, objects, preparations
        self.app = Starlette(
            routes=[
                Route(RECORDER, self._record, methods=["POST"]),
                Route("/{path:path}", self._forward, methods=METHODS),
            ]
        )

    async def _record(self, request: Request) -> Response:
        self.recorder.report(**await request.json())
        return Response()

    async def _forward(self, request: Request) -> Response:
        headers = {name: value for name, value in request.headers.items() if name not in NOT_FORWARDED}
        query = list(request.query_params.multi_items())
        content = await request.body()
        call = call_of(self._preparations, request.method, request.url.path, query, content, headers)
        test = self.recorder.current
        test.requests += 1
        literals = dict(call.ids)
        if (prepare := self._preparations.get(call.route)) is not None:
            await prepare(self._objects, call)
        for _ in range(MAX_LEFT_OUT):
            answer = await self._send(call)
            if answer.is_success:
                await self._send_unknown(call, literals)
                return _streamed(answer)
            await answer.aread()
            param, message = _error(answer)
            left_out = call.leave_out(param) if prepare is not None else None
            test.refusals.add(Refusal(call.route, left_out or "", message))
            if left_out is None:
                await self._send_unknown(call, literals)
                return _whole(answer)
        raise AssertionError(f"{call.route} refuses without an end")

    async def _send_unknown(self, call: Call, literals: dict[str, str]) -> None:
        """Send a call with the literals in its path again, and record an answer as for an object that exists."""
        if not literals:
            return
        unknown = await self._send(replace(call, ids=literals, query=[]))
        if unknown.status_code not in NOT_FOUND:
            self.recorder.current.unknown_answered.add(f"{call.route}: {unknown.status_code}")
        await unknown.aclose()

    async def _send(self, call: Call) -> httpx.Response:
        request = self._client.build_request(
            call.method, call.path, params=tuple(call.query), content=call.payload, headers=call.headers
        )
        return await self._client.send(request, stream=True)


def _error(answer: httpx.Response) -> tuple[str, str]:
    """Return the field that a refusal is about, which Anthropic's errors name in the message only, and the message."""
    try:
        error: dict[str, Any] = answer.json()["error"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return "", answer.text
    message = str(error["message"])
    named = re.search(r"'([\w.\[\]]+)'", message)
    return error.get("param") or (named[1] if named and "param" not in error else ""), message


def _whole(answer: httpx.Response) -> Response:
    """Return a refusal, which the client must not try again."""
    headers = {"content-type": answer.headers.get("content-type", ""), "x-should-retry": "false"}
    return Response(answer.content, answer.status_code, headers)


def _streamed(answer: httpx.Response) -> Response:
    async def pieces() -> Any:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(answer.aclose)
            async for piece in answer.aiter_raw():
                yield piece

    kept = {name: value for name, value in answer.headers.items() if name not in {"content-length", "connection"}}
    return StreamingResponse(pieces(), answer.status_code, kept)
