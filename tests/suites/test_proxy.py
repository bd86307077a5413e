"""The proxy between a suite and the gateway: unknown ids, replaced literals, and fields that are left out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from tests.fakes.scripted_worker import count
from tests.gateway.conftest import HI, served
from tests.suites.openai_python import PREPARATIONS
from tests.suites.proxy import SuiteProxy
from tests.suites.record import Refusal
from tests.suites.run import proxied


@dataclass
class Proxied:
    proxy: SuiteProxy
    client: httpx.AsyncClient

    async def begin(self, test: str) -> None:
        assert (await self.client.post("/recorder", json={"test": test})).status_code == 200


@pytest.fixture
async def suite() -> AsyncIterator[Proxied]:
    async with (
        served(count) as server,
        proxied(server, PREPARATIONS) as (proxy, origin),
        httpx.AsyncClient(base_url=origin) as client,
    ):
        result = Proxied(proxy, client)
        await result.begin("test")
        yield result


async def test_an_id_is_unknown_first_and_then_that_of_a_created_object(suite: Proxied) -> None:
    answer = await suite.client.get("/v1/files/file_id")
    assert answer.status_code == 200
    assert answer.json()["id"] != "file_id"
    record = suite.proxy.recorder.tests["test"]
    assert (record.requests, record.refusals, record.unknown_answered) == (1, set(), set())


async def test_an_answer_for_an_object_that_was_never_created_is_recorded(suite: Proxied) -> None:
    created = (await suite.client.get("/v1/files/file_id")).json()["id"]
    await suite.client.get(f"/v1/files/{created}")
    assert suite.proxy.recorder.current.unknown_answered == {"GET /v1/files/{file_id}: 200"}


async def test_refused_fields_are_left_out_and_recorded(suite: Proxied) -> None:
    body = {"model": "gpt", "messages": HI, "logit_bias": {"foo": 0}, "moderation": {"model": "m"}, "n": 2}
    answer = await suite.client.post("/v1/chat/completions", json=body)
    assert len(answer.json()["choices"]) == 2
    refused = suite.proxy.recorder.current.refusals
    assert {(each.route, each.field) for each in refused} == {
        ("POST /v1/chat/completions", "logit_bias"),
        ("POST /v1/chat/completions", "moderation"),
    }


async def test_a_request_that_stays_refused_is_answered_as_the_gateway_did(suite: Proxied) -> None:
    answer = await suite.client.post("/v1/chat/completions", json={})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")
    message = answer.json()["error"]["message"]
    assert suite.proxy.recorder.current.refusals == {Refusal("POST /v1/chat/completions", "", message)}


async def test_requests_belong_to_the_test_that_began_last(suite: Proxied) -> None:
    await suite.begin("other")
    await suite.client.get("/v1/models")
    tests = suite.proxy.recorder.tests
    assert (tests["test"].requests, tests["other"].requests) == (0, 1)


async def test_a_stream_passes_as_it_comes(suite: Proxied) -> None:
    body = {"model": "gpt", "input": "Hello.", "stream": True}
    async with suite.client.stream("POST", "/v1/responses", json=body) as answer:
        text = "".join([piece async for piece in answer.aiter_text()])
    assert text.startswith("event: response.created")
    assert text.endswith("data: [DONE]\n\n")
