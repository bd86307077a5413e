"""The route class of idempotent endpoints: valid keys, and fingerprints of bodies."""

from __future__ import annotations

import pytest

from gateway.http.routes.idempotent import REPLAYED, _fingerprint
from tests.gateway.conftest import HI, MODEL, SetStage

BODY = {"model": MODEL, "messages": HI}


def test_a_fingerprint_depends_on_values_only() -> None:
    assert _fingerprint({"a": 1, "b": [1, 2]}) == _fingerprint({"b": [1, 2], "a": 1})
    assert _fingerprint({"a": [1, 2]}) != _fingerprint({"a": [2, 1]})
    assert _fingerprint({"a": 1}) != _fingerprint({"a": "1"})


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "a\tb"])
async def test_an_invalid_key_is_refused_before_the_route_runs(set_stage: SetStage, key: str) -> None:
    stage = await set_stage()
    headers = [(b"idempotency-key", key.encode())]
    response = await stage.client.post("/v1/chat/completions", json=BODY, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_idempotency_key")
    assert stage.worker.jobs == []


async def test_a_replay_is_marked(set_stage: SetStage) -> None:
    stage = await set_stage()
    first, second = [
        await stage.client.post("/v1/chat/completions", json=BODY, headers={"idempotency-key": "k"}) for _ in range(2)
    ]
    assert REPLAYED not in first.headers
    assert second.headers[REPLAYED] == "true"
    assert first.content == second.content
    assert len(stage.worker.jobs) == 1


async def test_get_requests_ignore_the_header(set_stage: SetStage) -> None:
    stage = await set_stage()
    for _ in range(2):
        response = await stage.client.get("/v1/models", headers={"idempotency-key": "k"})
        assert REPLAYED not in response.headers
