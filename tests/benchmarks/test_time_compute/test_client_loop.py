"""The client's loop of a beam search: what it requests, and which paths go on."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.client import Endpoint
from benchmarks.test_time_compute.client_loop import SearchSize, search

SIZE = SearchSize(paths=2, expansions=3, steps=3, step_tokens=5)


async def test_the_best_paths_go_on_with_all_their_text() -> None:
    asked: list[dict[str, Any]] = []
    scored: list[list[list[str]]] = []

    async def completions(request: web.Request) -> web.Response:
        body = await request.json()
        asked.append(body)
        texts = [f"{len(asked)}{index} " for index in range(body["n"])]
        choices = [{"index": index, "text": text} for index, text in enumerate(texts)]
        return web.json_response({"choices": choices[::-1]})

    async def by_last_number(http: aiohttp.ClientSession, question: str, answers: list[list[str]]) -> list[float]:
        scored.append(answers)
        return [float(steps[-1]) for steps in answers]

    app = web.Application()
    app.router.add_post("/v1/completions", completions)
    async with TestServer(app) as server:
        endpoint = Endpoint(str(server.make_url("/v1")), "key", "m")
        found = await search(endpoint, by_last_number, "q", "Q: ", SIZE)
    first, *later = asked
    last: list[list[str]] = scored[-1]
    assert (first["prompt"], first["n"], first["max_tokens"], first["ignore_eos"]) == ("Q: ", 6, 5, True)
    assert sorted(body["prompt"] for body in later[:2]) == ["Q: 14 ", "Q: 15 "]
    assert [len(answers) for answers in scored] == [6, 6, 6]
    assert len(asked) == 1 + 2 + 2
    best = max(last, key=_last_number)
    assert found == "".join(best)
    assert SIZE.generated == 2 * 3 * 3 * 5


async def test_a_refusal_is_an_error() -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=400, text="no such model")

    app = web.Application()
    app.router.add_post("/v1/completions", refuse)
    async with TestServer(app) as server:
        endpoint = Endpoint(str(server.make_url("/v1")), "key", "m")
        with pytest.raises(aiohttp.ClientResponseError, match="no such model"):
            await search(endpoint, None, "q", "Q: ", SIZE)  # type: ignore[arg-type]


def _last_number(steps: list[str]) -> float:
    return float(steps[-1])
