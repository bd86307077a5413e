"""The route class of hot endpoints: which functions are called without FastAPI's solver of dependencies."""

from __future__ import annotations

from typing import Any

import fastapi.routing
import pytest

from tests.gateway.conftest import HI, MODEL, SetStage


class Solved(Exception):
    """Raised in place of solving a route's dependencies."""


@pytest.fixture
def without_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(**_options: Any) -> None:
        raise Solved

    monkeypatch.setattr(fastapi.routing, "solve_dependencies", refuse)


@pytest.mark.usefixtures("without_solver")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_function_of_a_request_and_its_body_is_called_directly(set_stage: SetStage, stream: bool) -> None:
    stage = await set_stage()
    body = {"model": MODEL, "messages": HI, "stream": stream}
    assert (await stage.client.post("/v1/chat/completions", json=body)).status_code == 200
    unauthorised = await stage.client.post("/v1/chat/completions", json=body, headers={"authorization": "Bearer x"})
    assert unauthorised.status_code == 401


@pytest.mark.usefixtures("without_solver")
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/chat/completions"), ("DELETE", "/v1/conversations/conv_1")])
async def test_a_function_with_other_parameters_is_not(set_stage: SetStage, method: str, path: str) -> None:
    """Not that of a query, nor that of a path."""
    stage = await set_stage()
    assert (await stage.client.request(method, path)).status_code == 500


async def test_a_route_that_is_called_directly_is_documented(set_stage: SetStage) -> None:
    stage = await set_stage()
    document = (await stage.client.get("/openapi.json")).json()
    assert {"requestBody", "security", "responses"} <= document["paths"]["/v1/chat/completions"]["post"].keys()
