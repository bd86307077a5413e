"""H118: operators' pages are not on the API's port, and health is answered from memory."""

from __future__ import annotations

import pytest

from gateway.settings import GatewaySettings
from tests.fakes.scripted_worker import never
from tests.gateway.conftest import SetStage


@pytest.mark.parametrize("key", [True, False])
async def test_operator_pages_are_not_on_the_apis_port(set_stage: SetStage, key: bool) -> None:
    stage = await set_stage()
    if not key:
        del stage.client.headers["authorization"]
    for path in ("/metrics", "/status", "/docs", "/redoc", "/debug", "/debug/pprof", "/healthz/"):
        answer = await stage.client.get(path)
        assert answer.status_code == 404
        assert "headrace_" not in answer.text
    assert GatewaySettings().ops_host == "127.0.0.1"


async def test_health_is_answered_from_memory(set_stage: SetStage) -> None:
    """Health without broker and store, while requests wait."""
    stage = await set_stage(never)
    del stage.client.headers["authorization"]
    asked = len(stage.accounts.asked)
    stage.broker.alarm = True
    for path, status in (("/healthz", 200), ("/readyz", 503)):
        answer = await stage.client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert len(stage.accounts.asked) == asked
    assert stage.billing.held == {}
