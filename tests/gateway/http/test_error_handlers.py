"""Exception handlers: every exception becomes OpenAI's error body."""

from __future__ import annotations

import json

import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from gateway.errors import InvalidRequest
from gateway.http.error_handlers import error_response, install
from runtime.strict_json import MalformedRequest


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequest("No.", param="n"), 400, "invalid_value"),
        (MalformedRequest("No."), 400, "invalid_json"),
        (HTTPException(404), 404, "unknown_url"),
        (HTTPException(405, headers={"allow": "POST"}), 405, "method_not_allowed"),
        (HTTPException(426), 426, "invalid_value"),
    ],
)
def test_errors_of_routes(error: Exception, status: int, code: str) -> None:
    app = FastAPI()
    install(app)

    @app.get("/")
    async def route() -> None:
        raise error

    response = TestClient(app).get("/")
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.headers.get("allow") == ("POST" if status == 405 else None)


def test_a_missing_route_names_the_path_but_not_the_host() -> None:
    app = FastAPI()
    install(app)
    response = TestClient(app).get("/nowhere", headers={"host": "evil.example"})
    assert response.json()["error"]["message"] == "Invalid URL (GET /nowhere)"


def test_the_response_to_an_error_has_its_body_and_headers() -> None:
    response = error_response(InvalidRequest("No.", param="n"))
    assert response.status_code == 400
    assert json.loads(bytes(response.body))["error"]["param"] == "n"
