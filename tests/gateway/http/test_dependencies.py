"""Dependencies of the routes: a body is read only after its caller is authorised."""

from __future__ import annotations

import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from tests.gateway.conftest import SetStage


@pytest.mark.parametrize(("key", "status"), [("hr_live_unknown", 401), ("hr_live_embedder", 403)])
async def test_the_body_of_an_unauthorised_caller_is_not_parsed(set_stage: SetStage, key: str, status: int) -> None:
    stage = await set_stage()
    stage.accounts.added["hr_live_embedder"] = Principal(
        "key-3", "tenant-3", "salt", scopes=frozenset({Scope.EMBEDDINGS})
    )
    for path in ("/v1/chat/completions", "/v1/completions"):
        response = await stage.client.post(path, content=b"{ not JSON", headers={"authorization": f"Bearer {key}"})
        assert response.status_code == status


async def test_the_body_is_parsed_strictly(set_stage: SetStage) -> None:
    stage = await set_stage()
    headers = {"content-type": "application/json"}
    for body in (b"{ not JSON", b'{"model": "a", "model": "b"}', b'{"n": NaN}'):
        response = await stage.client.post("/v1/completions", content=body, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


async def test_an_overloaded_gateway_refuses_before_it_reads(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()
    monkeypatch.setattr(type(stage.gateway.bus), "unconfirmed", 10_000)
    response = await stage.client.post("/v1/chat/completions", content=b"{ not JSON")
    assert response.status_code == 503


@pytest.mark.parametrize(
    "path",
    ["/v1/completions", "/v1/uploads", "/v1/uploads/upload_1/complete", "/v1/batches", "/v1/vector_stores"],
)
async def test_a_request_with_a_body_is_authenticated_once(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    stage = await set_stage()
    authenticate, keys = stage.gateway.authenticator.authenticate, []

    async def counted(key: str) -> Principal:
        keys.append(key)
        return await authenticate(key)

    monkeypatch.setattr(stage.gateway.authenticator, "authenticate", counted)
    assert (await stage.client.post(path, json={})).status_code < 500
    assert len(keys) == 1
