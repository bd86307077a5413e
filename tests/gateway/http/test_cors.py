"""Pages of the operator's origins may call the API from browsers; other pages, administration and cookies may not."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.settings import GatewaySettings
from tests.gateway.conftest import SetStage

PAGE = "https://app.example"
OTHER = "https://evil.example"
ORIGINS = f"{PAGE}, http://localhost:5173"


def preflight(origin: str = PAGE) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
        "authorization": "",
    }


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/models"])
async def test_a_preflight_of_a_known_origin_is_answered(set_stage: SetStage, path: str) -> None:
    stage = await set_stage(cors_origins=ORIGINS)
    response = await stage.client.options(path, headers=preflight())
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "authorization" in response.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("answered", ["an answer", "an error"])
async def test_answers_and_errors_are_readable_by_the_page(set_stage: SetStage, answered: str) -> None:
    stage = await set_stage(cors_origins=ORIGINS)
    stage.client.headers["origin"] = PAGE
    fields: dict[str, Any] = {} if answered == "an answer" else {"n": 0}
    response = await stage.chat(**fields)
    assert response.status_code == (400 if fields else 200)
    assert response.headers["access-control-allow-origin"] == PAGE
    assert response.headers["access-control-expose-headers"] == "*"


@pytest.mark.parametrize(
    ("origins", "origin", "path"),
    [
        ("", PAGE, "/v1/models"),
        (ORIGINS, OTHER, "/v1/models"),
        (ORIGINS, "null", "/v1/models"),
        (ORIGINS, f"{PAGE}.evil.example", "/v1/models"),
        (ORIGINS, PAGE, "/v1/organization/users"),
        (ORIGINS, PAGE, "/v1/operator/prices"),
        ("*", PAGE, "/v1/organization/users"),
        (ORIGINS, PAGE, "/api/session"),
        (ORIGINS, PAGE, "/"),
    ],
)
async def test_no_other_page_and_no_administration(set_stage: SetStage, origins: str, origin: str, path: str) -> None:
    stage = await set_stage(cors_origins=origins)
    for response in (
        await stage.client.options(path, headers=preflight(origin)),
        await stage.client.get(path, headers={"origin": origin}),
    ):
        assert "access-control-allow-origin" not in response.headers


async def test_every_origin_may_be_allowed(set_stage: SetStage) -> None:
    stage = await set_stage(cors_origins="*")
    response = await stage.client.get("/v1/models", headers={"origin": OTHER})
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    "wrong", ["app.example", "https://app.example/", "https://a/b", "ftp://a", "*, https://a", "null"]
)
def test_settings_must_be_origins(wrong: str) -> None:
    with pytest.raises(ValueError, match="cors_origins"):
        GatewaySettings(cors_origins=wrong)
