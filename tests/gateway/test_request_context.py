"""What surrounds every request: ids, trace, metrics."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from tests.gateway.conftest import SetStage


async def test_every_answer_has_an_id_errors_too(set_stage: SetStage) -> None:
    stage = await set_stage()
    ids = set()
    for path in ("/healthz", "/nowhere", "/v1/models", "/v1/models/x"):
        response = await stage.client.get(path)
        ids.add(response.headers["x-request-id"])
        assert response.headers["openai-version"]
        assert response.headers["x-content-type-options"] == "nosniff"
    assert len(ids) == 4


@pytest.mark.parametrize("value", ["a b", "x" * 513, "é", ""])
async def test_client_ids_that_are_not_plain_are_not_echoed(set_stage: SetStage, value: str) -> None:
    stage = await set_stage()
    response = await stage.client.get("/healthz", headers={"x-client-request-id": value.encode()})
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
