"""The middleware of every request: ids, trace, metrics, draining of refused bodies."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.types import Message, Receive

from gateway.errors import BrokerDown
from gateway.http import request_context
from gateway.http.error_handlers import error_response
from gateway.http.request_context import RequestContext
from gateway.metrics import GatewayMetrics
from tests.gateway.conftest import SetStage


async def test_every_response_has_a_request_id(set_stage: SetStage) -> None:
    stage = await set_stage()
    ids = set()
    for path in ("/healthz", "/nowhere", "/v1/models", "/v1/models/x"):
        response = await stage.client.get(path)
        ids.add(response.headers["x-request-id"])
        assert response.headers["openai-version"]
        assert response.headers["x-content-type-options"] == "nosniff"
    assert len(ids) == 4


@pytest.mark.parametrize("value", ["a b", "x" * 513, "é", ""])
async def test_client_request_ids_are_echoed_in_plain_ascii_only(set_stage: SetStage, value: str) -> None:
    stage = await set_stage()
    response = await stage.client.get("/healthz", headers={b"x-client-request-id": value.encode()})
    assert response.status_code == 200
    assert "x-client-request-id" not in response.headers


async def test_trace_reaches_the_worker(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await set_stage()
    published = []
    publish = stage.gateway.bus.publish_job

    async def watch(job: object, headers: dict[str, str]) -> None:
        published.append(headers)
        await publish(job, headers)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.gateway.bus, "publish_job", watch)
    stage.client.headers["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await stage.chat()
    assert published[0]["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")


async def test_metrics_have_few_labels_whatever_is_asked(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.chat()
    await stage.client.get("/v1/models/org/secret-name")
    await stage.client.request("BREW", "/coffee/123")
    text = generate_latest(stage.gateway.metrics.registry).decode()
    assert 'headrace_http_requests_total{method="POST",route="/v1/chat/completions",status="200"} 1.0' in text
    assert 'headrace_http_requests_total{method="other",route="unmatched",status="404"} 1.0' in text
    assert 'headrace_generations_total{model="org/counting-model",outcome="finished"} 1.0' in text
    assert "headrace_time_to_first_token_seconds_count" in text
    assert "secret-name" not in text
    assert "coffee" not in text


@pytest.mark.parametrize("pieces", [1, 3, 1000], ids=["small", "in pieces", "without end"])
async def test_the_body_of_a_refused_request_is_drained(pieces: int) -> None:
    """Without draining, the connection would be reset and the unread refusal lost."""
    happened: list[str] = []
    left = pieces

    async def receive() -> Message:
        nonlocal left
        left -= 1
        happened.append("heard")
        return {"type": "http.request", "body": b"x" * 65536, "more_body": left > 0}

    await refused_by(receive, happened)
    assert happened == ["answered", *["heard"] * min(pieces, 4), "closed"]


async def test_draining_a_silent_client_is_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_context, "DRAIN_TIMEOUT", 0.01)
    happened: list[str] = []

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async with asyncio.timeout(20):
        await refused_by(receive, happened)
    assert happened == ["answered", "closed"]


async def refused_by(receive: Receive, happened: list[str]) -> None:
    """Refuse a request before its body was read; `happened` records what the server was told to do."""

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            happened.append("answered" if message.get("body") else "closed")
            assert message.get("more_body", False) is bool(message.get("body"))

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"x"), (b"content-length", b"9")]}
    app = RequestContext(error_response(BrokerDown()), GatewayMetrics(CollectorRegistry()))
    await app(scope, receive, send)
