"""Each route's dialect writes its errors; everything else is answered in OpenAI's."""

from __future__ import annotations

import json

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from gateway.errors import InvalidRequest
from gateway.http.dialect import OPENAI, Dialect, dialect_of
from gateway.http.error_handlers import install


class Terse(APIRoute):
    dialect = Dialect(error_status=lambda _: 418, error_body=lambda error: {"e": str(error)})


def test_errors_are_in_the_dialect_of_their_route() -> None:
    router = APIRouter(route_class=Terse)

    @router.get("/terse")
    async def _fail() -> None:
        raise InvalidRequest("No.")

    app = FastAPI()
    app.include_router(router)
    install(app)
    client = TestClient(app)
    response = client.get("/terse")
    assert (response.status_code, response.json()) == (418, {"e": "No."})
    assert client.post("/terse").json() == {"e": "Not allowed to POST on /terse."}
    assert client.get("/nowhere").json()["error"]["code"] == "unknown_url"


def test_openai_is_the_default() -> None:
    assert dialect_of({}) is OPENAI
    assert dialect_of({"route": object()}) is OPENAI
    assert OPENAI.error_status(InvalidRequest("No.")) == 400
    assert json.loads(OPENAI.error_frame(InvalidRequest("No.")).removeprefix("data: "))["error"]["message"] == "No."
