"""A request leads to the gateway that serves it."""

from __future__ import annotations

from fastapi import Request

from gateway.http.gateway import gateway_of
from tests.gateway.conftest import SetStage


async def test_the_gateway_is_found_through_the_application(set_stage: SetStage) -> None:
    stage = await set_stage()
    request = Request({"type": "http", "app": stage.app})
    assert gateway_of(request) is stage.app.state.gateway
    assert not gateway_of(request).stopping.is_set()
