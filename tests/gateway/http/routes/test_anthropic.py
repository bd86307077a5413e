"""`/v1/messages`: errors in Anthropic's shape, idempotency keys, images, bills."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from auth_billing.errors import InsufficientCredit
from gateway.errors import InvalidRequest, Overloaded, ScopeMissing
from gateway.http.routes.anthropic import ANTHROPIC
from router.messages import ChatPrompt, FailureCode
from runtime.strict_json import BodyTooLarge
from stored_objects.errors import BlobNotFound
from tests.fakes.scripted_worker import count, fail, start_and_wait
from tests.gateway.conftest import KEY, MODEL, SetStage, eventually
from tests.gateway.dialects.anthropic.test_answer import BODY, events

NO_CREDIT = InsufficientCredit(needed=2, available=1)


def kinds(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert body.keys() == {"type", "error"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    return response.status_code, body["error"]["type"]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("No."), 400, "invalid_request_error"),
        (ScopeMissing("files"), 403, "permission_error"),
        (BlobNotFound(), 404, "not_found_error"),
        (BodyTooLarge("No."), 413, "request_too_large"),
        (Overloaded("wait", 3.0), 529, "overloaded_error"),
        (RuntimeError("secret"), 500, "api_error"),
    ],
)
def test_errors_have_anthropics_status_and_type(error: Exception, status: int, kind: str) -> None:
    assert ANTHROPIC.error_status(error) == status
    body = ANTHROPIC.error_body(error)
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert "secret" not in str(body)
    [sent] = events(ANTHROPIC.error_frame(error))
    assert sent == body


async def test_refusals_have_anthropics_shape(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="4 requests/day")
    url, post = "/v1/messages", stage.client.post
    wrong = {"authorization": "Bearer hr_live_unknown"}
    assert kinds(await post(url, json=BODY, headers=wrong)) == (401, "authentication_error")
    assert kinds(await stage.client.get(url)) == (405, "invalid_request_error")
    assert kinds(await post(url, content=b"{", headers={"content-type": "application/json"})) == (
        400,
        "invalid_request_error",
    )
    assert kinds(await post(url, json={**BODY, "max_tokens": 0})) == (400, "invalid_request_error")
    assert kinds(await post(url, json={**BODY, "model": "org/none"})) == (404, "not_found_error")
    assert kinds(await post(url, content=b"x" * 5_000_000, headers={"content-type": "application/json"})) == (
        413,
        "request_too_large",
    )
    limited = await post(url, json=BODY)
    assert kinds(limited) == (429, "rate_limit_error")
    assert int(limited.headers["retry-after"]) > 0
    assert stage.worker.jobs == []


async def test_an_exhausted_credit_is_a_billing_error(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.refusal = NO_CREDIT
    response = await stage.client.post("/v1/messages", json=BODY)
    assert kinds(response) == (402, "billing_error")
    assert response.headers["x-should-retry"] == "false"


async def test_a_failure_of_the_worker(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR))
    assert kinds(await stage.client.post("/v1/messages", json=BODY)) == (500, "api_error")


async def test_a_failure_after_the_first_token_is_an_event(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    response = await stage.client.post("/v1/messages", json=BODY | {"stream": True})
    *_, error = events(response.text)
    assert error == {"type": "error", "error": {"type": "api_error", "message": "No."}}


async def test_responses_name_the_request_as_anthropics_clients_expect(set_stage: SetStage) -> None:
    stage = await set_stage()
    for response in (
        await stage.client.post("/v1/messages", json=BODY),
        await stage.client.post("/v1/messages", json=BODY, headers={"authorization": "Bearer x"}),
    ):
        assert response.headers["request-id"] == response.headers["x-request-id"]
    assert "request-id" not in (await stage.chat()).headers


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_idempotency_key_runs_a_message_once(set_stage: SetStage, streamed: bool) -> None:
    stage = await set_stage()
    headers, body = {"idempotency-key": "k"}, BODY | {"stream": streamed}
    first = await stage.client.post("/v1/messages", json=body, headers=headers)
    again = await stage.client.post("/v1/messages", json=body, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    assert len(stage.worker.jobs) == 1
    assert kinds(await stage.client.post("/v1/messages", json=BODY | {"max_tokens": 9}, headers=headers)) == (
        400,
        "invalid_request_error",
    )


async def test_a_stream_that_failed_is_not_replayed(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    for _ in range(2):
        await stage.client.post("/v1/messages", json=BODY | {"stream": True}, headers={"idempotency-key": "k"})
    assert len(stage.worker.jobs) == 2


async def test_the_request_reaches_the_worker_as_a_chat_and_is_billed(set_stage: SetStage) -> None:
    stage = await set_stage(count)
    await stage.client.post("/v1/messages", json=BODY | {"system": "Be brief.", "stop_sequences": ["x"]})
    job = stage.worker.jobs[0]
    assert isinstance(job.prompt, ChatPrompt)
    assert [message["role"] for message in job.prompt.messages] == ["system", "user"]
    assert (job.sampling.max_tokens, job.text.stop, job.n) == (50, ["x"], 1)
    assert (await stage.receipt()).usage.completion_tokens == 5


async def test_images_are_refused_for_models_that_read_none(set_stage: SetStage) -> None:
    stage = await set_stage()
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": source}]
    response = await stage.client.post("/v1/messages", json=BODY | {"messages": [{"role": "user", "content": content}]})
    assert kinds(response) == (400, "invalid_request_error")
    assert "reads no images" in response.json()["error"]["message"]


async def test_a_disconnect_cancels_the_job(serve: Any) -> None:
    server = await serve(start_and_wait)
    body = json.dumps(BODY | {"stream": True}).encode()
    reader, writer = await server.connect()
    writer.write(
        f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: {KEY}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await asyncio.wait_for(reader.readuntil(b"text_delta"), 20)
    writer.close()
    worker = server.stage.worker
    await eventually(lambda: worker.cancel_of(worker.jobs[0].id).is_set())


async def test_the_model_is_the_one_that_was_named(set_stage: SetStage) -> None:
    stage = await set_stage()
    assert (await stage.client.post("/v1/messages", json=BODY)).json()["model"] == MODEL
