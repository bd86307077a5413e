"""Another Headrace as upstream, over real HTTP: requests and answers pass through both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn

from tests.fakes.scripted_worker import start_and_wait
from tests.gateway.conftest import KEY, eventually, stage
from tests.gateway.conftest import MODEL as THERE
from tests.gateway.conftest import Stage as Upstream
from tests.proxy.conftest import MODEL, ProxySetup, StartProxy


async def _listen(upstream: Upstream) -> AsyncIterator[str]:
    """Serve an upstream's gateway on a port; yield its URL."""
    server = uvicorn.Server(uvicorn.Config(upstream.app, port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    server.should_exit = True
    await serving


@pytest.fixture
async def there() -> AsyncIterator[Upstream]:
    async with stage() as upstream:
        yield upstream


@pytest.fixture
async def here(there: Upstream, start_proxy: StartProxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProxySetup]:
    monkeypatch.setenv("TEST_UPSTREAM_KEY", KEY)
    async for url in _listen(there):
        yield await start_proxy(url, their_name=THERE)


async def test_chats_with_and_without_streaming(there: Upstream, here: ProxySetup) -> None:
    whole = (await here.chat(n=2, max_tokens=4, logprobs=True, top_logprobs=2, seed=5)).json()
    assert [choice["message"]["content"] for choice in whole["choices"]] == ["0 1 2 3 "] * 2
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["length"] * 2
    assert len(whole["choices"][0]["logprobs"]["content"]) == 4
    assert whole["usage"]["completion_tokens"] == 8
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert whole["model"] == MODEL
    events = await here.events(max_tokens=4)
    text = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    assert text == "0 1 2 3 "
    assert events[-1]["usage"]["completion_tokens"] == 4
    first = there.worker.jobs[0]
    assert (first.model, first.n, first.sampling.seed, first.sampling.logprobs) == (THERE, 2, 5, 2)


async def test_completions(here: ProxySetup) -> None:
    body = {"model": MODEL, "prompt": "once", "max_tokens": 3, "logprobs": 1}
    choice = (await here.client.post("/v1/completions", json=body)).json()["choices"][0]
    assert choice["text"] == "0 1 2 "
    assert choice["logprobs"]["tokens"] == ["0 ", "1 ", "2 "]


async def test_the_upstream_s_rejections_are_passed_on(here: ProxySetup) -> None:
    response = await here.chat(content="x" * 5000)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


async def test_a_disconnect_cancels_the_upstream_s_job(there: Upstream, here: ProxySetup) -> None:
    there.worker.script = start_and_wait
    reading = asyncio.create_task(here.chat(stream=True))
    await eventually(lambda: bool(there.worker.jobs))
    await asyncio.sleep(0.1)
    reading.cancel()
    await asyncio.wait_for(there.worker.cancel_of(there.worker.jobs[0].id).wait(), 5)
