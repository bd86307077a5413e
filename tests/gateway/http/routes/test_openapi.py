"""`GET /openapi.json` is public and is built once."""

from __future__ import annotations

from tests.gateway.conftest import SetStage


async def test_the_document_is_public_and_cached(set_stage: SetStage) -> None:
    stage = await set_stage()
    del stage.client.headers["authorization"]
    first = (await stage.client.get("/openapi.json")).json()
    assert "/v1/chat/completions" in first["paths"]
    assert "/openapi.json" not in first["paths"]
    document = stage.app.openapi_schema
    assert (await stage.client.get("/openapi.json")).json() == first
    assert stage.app.openapi_schema is document
