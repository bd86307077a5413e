"""The route class of idempotent endpoints: valid keys, and fingerprints of bodies."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from auth_billing.access.model_access import ALL_MODELS
from gateway.http.routes.idempotent import REPLAYED, _fingerprint
from tests.gateway.conftest import HI, KEY, MODEL, SetStage

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


@pytest.mark.parametrize("running", [False, True])
async def test_an_answer_is_not_repeated_to_a_key_that_may_not_use_its_model(
    set_stage: SetStage, running: bool
) -> None:
    """H72."""
    stage = await set_stage()
    stage.accounts.added["hr_live_other_models"] = replace(
        await stage.accounts.authenticate(KEY),
        key_id="key-3",
        models=ALL_MODELS.restricted_to(frozenset({"another-model"})),
    )
    other = {"authorization": "Bearer hr_live_other_models", "idempotency-key": "k"}

    async def ask(**headers: str) -> httpx.Response:
        return await stage.client.post("/v1/chat/completions", json=BODY, headers={"idempotency-key": "k", **headers})

    if running:
        first, refused = await asyncio.gather(ask(), ask(**other))
    else:
        first, refused = await ask(), await ask(**other)
    assert first.status_code == 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert (await ask()).content == first.content


async def test_a_key_that_may_not_use_a_model_does_not_spoil_an_idempotency_key(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.accounts.added["hr_live_other_models"] = replace(
        await stage.accounts.authenticate(KEY),
        key_id="key-3",
        models=ALL_MODELS.restricted_to(frozenset({"another-model"})),
    )
    other = {"authorization": "Bearer hr_live_other_models", "idempotency-key": "k"}
    assert (await stage.client.post("/v1/chat/completions", json=BODY, headers=other)).status_code == 404
    first = await stage.client.post("/v1/chat/completions", json=BODY, headers={"idempotency-key": "k"})
    assert first.status_code == 200
