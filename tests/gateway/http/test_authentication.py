"""Authentication: every route requires a key unless it is marked public."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.keys import key_format
from auth_billing.keys.key_issuance import IssuedKey, KeySpec, issue
from gateway.http.authentication import guard_of, public, unprotected_routes
from gateway.http.dependencies import ModelReader
from router.messages import KeySet
from tests.gateway.conftest import KEY, PEPPER, SetStage, Stage

WRONG = {
    "no header": {},
    "no key": {"authorization": "Bearer"},
    "blank key": {"authorization": "Bearer   "},
    "basic": {"authorization": "Basic aHI6aHI="},
    "no scheme": {"authorization": KEY},
    "unknown": {"authorization": "Bearer hr_live_unknown"},
    "one character more": {"authorization": f"Bearer {KEY}x"},
    "two keys in one": {"authorization": f"Bearer {KEY} {KEY}"},
    "SQL": {"authorization": "Bearer ' OR '1'='1"},
    "operator": {"authorization": 'Bearer {"$gt":""}'},
    "unknown in another header": {"x-api-key": "hr_live_unknown"},
    "bearer in another header": {"x-api-key": f"Bearer {KEY}"},
    "basic beside another header": {"authorization": f"Basic {KEY}", "x-api-key": KEY},
    "very long": {"authorization": "Bearer " + "x" * 1_000_000},
    "not ASCII": {"authorization": "Bearer schlüssel".encode()},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
async def test_wrong_credentials(set_stage: SetStage, headers: dict[str, str]) -> None:
    stage = await set_stage()
    del stage.client.headers["authorization"]
    response = await stage.client.get("/v1/models", headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert response.headers["www-authenticate"] == "Bearer"
    assert all(len(token) <= 256 and token.isascii() for token in stage.accounts.asked)


async def test_key_in_the_query_is_not_read(set_stage: SetStage) -> None:
    stage = await set_stage()
    del stage.client.headers["authorization"]
    assert (await stage.client.get(f"/v1/models?api_key={KEY}&authorization=Bearer%20{KEY}")).status_code == 401


async def test_scheme_in_any_case(set_stage: SetStage) -> None:
    stage = await set_stage()
    for scheme in ("bearer", "BEARER"):
        assert (await stage.client.get("/v1/models", headers={"authorization": f"{scheme} {KEY}"})).status_code == 200


async def test_the_key_may_be_in_the_header_of_anthropics_clients(set_stage: SetStage) -> None:
    stage = await set_stage()
    assert (await stage.client.get("/v1/models", headers={"x-api-key": KEY})).status_code == 200  # and in the other one
    del stage.client.headers["authorization"]
    assert (await stage.client.get("/v1/models", headers={"x-api-key": KEY})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"Bearer {KEY}"), ("authorization", "Bearer other")],
        [("x-api-key", KEY), ("x-api-key", "other")],
        [("x-api-key", "other")],
    ],
)
async def test_conflicting_credentials(set_stage: SetStage, headers: list[tuple[str, str]]) -> None:
    stage = await set_stage()
    if len(headers) == 2:
        del stage.client.headers["authorization"]
    response = await stage.client.get("/v1/models", headers=headers)
    assert response.status_code == 400
    assert stage.accounts.asked == []


async def test_the_body_of_an_unauthenticated_caller_is_not_read(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.post(
        "/v1/chat/completions", content=b"not json", headers={"authorization": "Bearer hr_live_unknown"}
    )
    assert response.status_code == 401
    assert response.headers["connection"] == "close"


async def test_store_down(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.get("/v1/models", headers={"authorization": "Bearer hr_live_down"})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "billing_unavailable"
    assert "mongodb" not in response.text
    assert int(response.headers["retry-after"]) <= 60


async def test_every_route_requires_a_key_or_is_public(set_stage: SetStage) -> None:
    stage = await set_stage()
    assert unprotected_routes(stage.app) == []
    del stage.client.headers["authorization"]
    opened = set()
    for route in iter_route_contexts(stage.app.routes):
        assert isinstance(route.original_route, APIRoute)
        for method in route.methods or ():
            response = await stage.client.request(method, str(route.path).replace("{name:path}", "x"))
            opened |= {route.path} if response.status_code != 401 else set()
    assert opened == {
        *("/healthz", "/readyz", "/openapi.json", "/api/version"),
        "/v1/blobs/{blob_id}",  # its address is signed
    }


def scopes_of_routes(stage: Stage) -> list[tuple[str, str, Scope]]:
    """Method, path and required scope of every route that is not public."""
    found = []
    for route in iter_route_contexts(stage.app.routes):
        assert isinstance(route.original_route, APIRoute)
        guard = guard_of(route.dependant)
        if guard is not None:
            path = str(route.path).replace("{name:path}", "x")
            found += [(method, path, guard.scope) for method in route.methods or ()]
    return found


async def test_every_route_refuses_a_key_without_its_scope_before_the_body_is_read(set_stage: SetStage) -> None:
    stage = await set_stage()
    routes = scopes_of_routes(stage)
    assert {scope for _, _, scope in routes} >= {Scope.CHAT_COMPLETIONS, Scope.EMBEDDINGS, Scope.MODELS_READ}
    for method, path, scope in routes:
        stage.accounts.added["hr_live_all_but_one"] = Principal("k", "t", "s", scopes=frozenset(Scope) - {scope})
        for more in ({}, {"idempotency-key": "once"}):
            headers = {"authorization": "Bearer hr_live_all_but_one", **more}
            response = await stage.client.request(method, path, headers=headers, content=b"not json")
            assert response.status_code == 403, path
            assert f"Missing scopes: {scope}." in response.text, path
        stage.accounts.added["hr_live_that_one"] = Principal("k", "t", "s", scopes=frozenset({scope}))
        headers = {"authorization": "Bearer hr_live_that_one"}
        response = await stage.client.request(method, path, headers=headers, content=b"not json")
        assert response.status_code != 401, path
        assert "Missing scopes" not in response.text, path  # /v1/operator refuses tenants' keys for another reason
    assert not stage.worker.jobs


def test_a_route_without_authentication_is_found() -> None:
    app = FastAPI(openapi_url=None)

    @app.get("/v1/forgotten")
    async def forgotten() -> None: ...

    @app.get("/v1/closed")
    async def closed(caller: ModelReader) -> None: ...

    @app.get("/public")
    @public
    async def endpoint() -> None: ...

    app.mount("/mounted", FastAPI())
    assert unprotected_routes(app) == ["/v1/forgotten", "/mounted"]


async def test_all_invalid_keys_get_the_same_response(set_stage: SetStage) -> None:
    """Unknown, invalid, expired and revoked keys, and a text that is not a key."""
    stage = await set_stage()
    made: dict[str, IssuedKey] = {}
    for name in ("wrong", "expired", "revoked"):
        made[name] = await issue(
            stage.accounts.store, PEPPER, organisation="acme", project="p", spec=KeySpec(name), user="", now=1.0
        )
    await stage.accounts.store.expire(made["expired"].record.key_id, 2.0)
    await stage.accounts.store.revoke(KeySet(key=made["revoked"].record.key_id), 2.0)
    texts = [
        key_format.generate().text,
        key_format.ApiKey(made["wrong"].record.key_id, key_format.generate().secret).text,
        made["expired"].key.text,
        made["revoked"].key.text,
        "hr_live_garbage",
    ]
    answers = [await stage.client.get("/v1/models", headers={"authorization": f"Bearer {text}"}) for text in texts]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1


async def test_pages_of_other_origins_cannot_read_responses(set_stage: SetStage) -> None:
    stage = await set_stage()
    origin = {"origin": "https://evil.example"}
    answer = await stage.client.get("/v1/models", headers=origin)
    preflight = await stage.client.options(
        "/v1/chat/completions", headers={**origin, "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 405
    for each in (answer, preflight):
        assert not [name for name in each.headers if name.startswith("access-control-")]
