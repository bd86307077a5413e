"""Requests of a gateway to itself: which answers are final, and when others are tried again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from auth_billing.access.principal import Principal
from gateway.http.authentication import SCOPE_PRINCIPAL
from gateway.http.internal_requests import MAX_TRIES, MAX_WAIT, InternalAnswer, request_internally
from tests.gateway.conftest import HI, MODEL, SetStage

CALLER = Principal("key-1", "tenant-1", "salt-1", project="project-1", in_background=True)


def answer(status: int, **headers: str) -> InternalAnswer:
    return InternalAnswer(status, Headers({name.replace("_", "-"): value for name, value in headers.items()}), b"{}")


@pytest.mark.parametrize(
    ("response", "tries", "final"),
    [
        (answer(200), 1, True),
        (answer(400), 1, True),
        (answer(404), 1, True),
        (answer(413), 1, True),
        (answer(429), 100, False),
        (answer(429, x_should_retry="false"), 1, True),
        (answer(503), 100, False),
        (answer(408), 100, False),
        (answer(409), 1, False),
        (answer(409, x_should_retry="false"), 1, True),
        (answer(500), 1, False),
        (answer(500), MAX_TRIES, True),
        (answer(502), MAX_TRIES - 1, False),
        (answer(500, x_should_retry="false"), 1, True),
    ],
)
def test_answers_are_final_or_repeated(response: InternalAnswer, tries: int, final: bool) -> None:
    assert (response.wait_before_retry(tries) is None) is final


def test_waits_grow_and_obey_the_server() -> None:
    waits = [answer(503).wait_before_retry(tries) for tries in range(1, 20)]
    assert waits == sorted(each for each in waits if each is not None)
    assert waits[-1] == MAX_WAIT
    assert answer(503, retry_after="30").wait_before_retry(1) == 30
    assert answer(503, retry_after="9999").wait_before_retry(1) == MAX_WAIT
    assert answer(503, retry_after="soon").wait_before_retry(1) == 0.5


async def test_an_application_gets_the_request_of_the_principal() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.update(scope=scope, body=(await receive())["body"])
        await send({"type": "http.response.start", "status": 201, "headers": [(b"x-request-id", b"req_1")]})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        await send({"type": "http.response.body", "body": b"c"})

    response = await request_internally(app, CALLER, "/v1/score", "batch_1:7", b"{}")
    assert (response.status, response.request_id, response.body) == (201, "req_1", b"abc")
    assert seen["scope"][SCOPE_PRINCIPAL] is CALLER
    assert seen["scope"]["path"] == "/v1/score"
    assert dict(seen["scope"]["headers"])[b"idempotency-key"] == b"batch_1:7"
    assert seen["body"] == b"{}"


async def test_a_repeated_line_gets_the_stored_answer(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = json.dumps({"model": MODEL, "messages": HI, "max_tokens": 2}).encode()
    first, second = [
        await request_internally(stage.app, CALLER, "/v1/chat/completions", "batch_1:1", body) for _ in range(2)
    ]
    assert (first.status, first.body) == (200, second.body)
    assert second.headers["idempotent-replayed"] == "true"
    assert len(stage.worker.jobs) == 1
    assert json.loads(first.body)["service_tier"] == "flex"


async def test_clients_can_not_set_a_principal(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.get("/v1/models", headers={"authorization": "", SCOPE_PRINCIPAL: "key-1"})
    assert response.status_code == 401


def test_a_request_that_no_batch_makes() -> None:
    refused = InternalAnswer.refused("Invalid 'stream'.", "stream")
    assert refused.status == 400
    assert json.loads(refused.body)["error"]["param"] == "stream"
    assert refused.request_id.startswith("req_")
