"""Error responses: status, type, code and retry hints of every failure; never FastAPI's `detail`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest
from msgspec.structs import replace as msgspec_replace
from structlog.testing import capture_logs

from auth_billing import errors as account_errors
from gateway.errors import GatewayError
from gateway.http.http_errors import HTTP_ERRORS, HttpError, error_body, error_headers, http_error
from router import errors as wire_errors
from router.messages import Failed, FailureCode, WorkerState
from router.producer.errors import GenerationError, JobFailed
from stored_objects.errors import StoredObjectError
from tests.fakes.scripted_worker import fail, never, start_and_wait
from tests.fakes.scripted_worker import status as heartbeat
from tests.gateway.conftest import MODEL, QUICK, SetStage, Stage


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(subclasses(sub) for sub in kind.__subclasses__()))


def test_every_failure_code_has_a_row() -> None:
    assert set(FailureCode) <= HTTP_ERRORS.keys()


def test_every_error_has_a_row_or_inherits_one() -> None:
    kinds = subclasses(GatewayError) | subclasses(GenerationError)
    kinds |= subclasses(wire_errors.PublishError) | subclasses(account_errors.AccountError)
    kinds |= subclasses(StoredObjectError)
    families = {GatewayError, GenerationError, JobFailed}  # never raised themselves, or with a failure code
    nearest = {kind: next(base for base in kind.__mro__ if base in HTTP_ERRORS) for kind in kinds - families}
    assert {kind.__name__ for kind, row in nearest.items() if row is Exception} == set()


@pytest.mark.parametrize("row", HTTP_ERRORS.values())
def test_every_unavailable_response_has_a_retry_hint(row: HttpError) -> None:
    assert row.status in {400, 401, 403, 404, 405, 408, 409, 413, 415, 429, 431, 499, 500, 502, 503, 504}
    if row.status == 503:
        assert row.retry_after is None or 1 <= row.retry_after <= 60
        assert row.retry_after is not None or row.should_retry is False


def test_an_unknown_error_reveals_nothing() -> None:
    body = error_body(RuntimeError("password=hunter2"))
    assert "hunter2" not in str(body)
    assert http_error(RuntimeError()).status == 500


def test_a_repeatedly_failing_job_is_not_to_be_retried() -> None:
    error = JobFailed(Failed(job_id="j", attempt_id="a", code=FailureCode.FAILED_REPEATEDLY, message="It failed."))
    assert error_headers(error) == {"x-should-retry": "false"}


def test_an_upstreams_retry_after_is_passed_on_up_to_a_minute() -> None:
    def said(seconds: int | None) -> dict[str, str]:
        failed = Failed(
            job_id="j", attempt_id="a", code=FailureCode.UPSTREAM_BUSY, message="Busy.", retry_after=seconds
        )
        return error_headers(JobFailed(failed))

    assert [said(seconds)["retry-after"] for seconds in (None, 7, 3600)] == ["5", "7", "60"]


def check(body: dict[str, Any]) -> dict[str, Any]:
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert isinstance(error["code"], str | None)
    return error


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/unknown", 404),
        ("POST", "/v1/unknown", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
        ("GET", "/metrics", 404),
        ("GET", "/v1/models/", 404),
        ("GET", "/v1/models/..%2f", 404),
        ("GET", "/v1/models/nobody/knows-it", 404),
    ],
)
async def test_unknown_routes(set_stage: SetStage, method: str, path: str, status: int) -> None:
    stage = await set_stage()
    response = await stage.client.request(method, path)
    assert response.status_code == status
    check(response.json())
    if status == 405:
        assert response.headers["allow"]


@pytest.mark.parametrize("name", ["nobody", "../../etc", "m.#", "gpt-4\r\nX: y", "*"])
async def test_unknown_model(set_stage: SetStage, name: str) -> None:
    stage = await set_stage()
    response = await stage.chat(model=name)
    assert response.status_code == 404
    assert check(response.json())["code"] == "model_not_found"


async def test_media_type_encoding_and_size(set_stage: SetStage) -> None:
    stage = await set_stage(max_body_bytes=100)
    post = stage.client.post
    path = "/v1/chat/completions"
    for status, headers, content in (
        (415, {"content-type": "text/plain"}, b"{}"),
        (415, {"content-type": "application/json", "content-encoding": "gzip"}, b"{}"),
        (413, {"content-type": "application/json"}, b" " * 101),
        (400, {"content-type": "application/json"}, b'{"temperature": NaN}'),
    ):
        response = await post(path, headers=headers, content=content)
        assert response.status_code == status
        check(response.json())


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (FailureCode.CONTEXT_LENGTH_EXCEEDED, 400),
        (FailureCode.INVALID_PROMPT, 400),
        (FailureCode.INVALID_PARAMETER, 400),
        (FailureCode.DEADLINE_EXCEEDED, 408),
        (FailureCode.ENGINE_ERROR, 500),
        (FailureCode.WORKER_SHUTDOWN, 503),
        (FailureCode.FAILED_REPEATEDLY, 500),
        (FailureCode.UPSTREAM_ERROR, 502),
        (FailureCode.UPSTREAM_TIMEOUT, 504),
        (FailureCode.UPSTREAM_BUSY, 503),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_early_failure_of_a_stream_is_a_status(
    set_stage: SetStage, code: FailureCode, status: int, stream: bool
) -> None:
    stage = await set_stage(fail(code, "It is too long."))
    response = await stage.chat(stream=stream)
    assert response.status_code == status
    error = check(response.json())
    assert error["message"] == "It is too long."
    assert error["param"] == "messages"


async def test_a_failure_after_tokens_fails_a_whole_answer(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    assert (await stage.chat()).status_code == 500


async def test_broker_blocked_or_down(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.broker.alarm = True
    response = await stage.chat()
    assert response.status_code == 503
    assert response.headers["retry-after"] == "10"
    assert check(response.json())["code"] == "overloaded"
    assert (await stage.client.get("/readyz")).status_code == 503
    assert (await stage.client.get("/healthz")).status_code == 200
    stage.broker.alarm = False
    assert (await stage.client.get("/readyz")).status_code == 200


async def test_a_model_without_workers_for_a_minute_is_unavailable(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()
    clock = stage.gateway.models._clock
    monkeypatch.setattr(stage.gateway.models, "_clock", lambda: clock() + 61)
    response = await stage.chat()
    assert response.status_code == 503
    assert check(response.json())["code"] == "model_unavailable"
    assert response.headers["retry-after"]


async def test_deadline_whole_and_in_a_stream(set_stage: SetStage) -> None:
    stage = await set_stage(never, max_request_seconds=0.2, header_delay=0)
    response = await stage.chat()
    assert response.status_code == 408
    assert check(response.json())["code"] == "deadline_exceeded"
    streamed = await stage.chat(stream=True)
    assert streamed.status_code == 200
    assert '"code":"deadline_exceeded"' in streamed.text
    for job in stage.worker.jobs:
        await stage.worker.cancel_of(job.id).wait()


UNREACHABLE_SOON = replace(QUICK, worker_alive_timeout=0.0, silence_check_interval=0.02, unreachable_after=3.0)


async def block_during_an_answer(
    set_stage: SetStage, no_worker_timeout: float
) -> tuple[Stage, asyncio.Task[httpx.Response]]:
    """Block the broker while a request is answered; return the request's task."""
    stage = await set_stage(start_and_wait, timings=UNREACHABLE_SOON, no_worker_timeout=no_worker_timeout)
    asking = asyncio.create_task(stage.chat())
    await stage.worker.received.wait()
    stage.broker.alarm = True
    return stage, asking


async def test_workers_lost_before_and_after_the_first_reply(set_stage: SetStage) -> None:
    waiting = await set_stage(never, timings=UNREACHABLE_SOON, no_worker_timeout=0.1)
    response = await waiting.chat()
    assert response.status_code == 503
    assert check(response.json())["code"] == "model_unavailable"
    started = await set_stage(start_and_wait, timings=UNREACHABLE_SOON, no_worker_timeout=1.0)
    assert (await started.chat()).json()["error"]["code"] == "worker_lost"


async def test_answers_wait_while_workers_that_die_again_are_loading(set_stage: SetStage) -> None:
    timings = replace(UNREACHABLE_SOON, worker_alive_timeout=0.1)
    stage = await set_stage(start_and_wait, timings=timings, no_worker_timeout=1.0)
    asking = asyncio.create_task(stage.chat())
    await stage.worker.received.wait()
    for _ in range(5):  # no worker is seen for half a second, again and again
        await asyncio.sleep(0.5)
        assert not asking.done()
        stage.worker.bus.send_status(msgspec_replace(heartbeat(MODEL), state=WorkerState.STARTING))
    last = time.monotonic()
    assert (await asking).json()["error"]["code"] == "worker_lost"
    assert time.monotonic() - last > 0.9


async def test_answers_wait_a_minute_for_a_blocked_broker(set_stage: SetStage) -> None:
    stage, asking = await block_during_an_answer(set_stage, no_worker_timeout=2.0)
    began = time.monotonic()
    assert (await asking).json()["error"]["code"] == "upstream_unreachable"
    assert time.monotonic() - began > 2.5
    stage.broker.alarm = False


async def test_workers_get_time_to_reconnect_after_the_broker(set_stage: SetStage) -> None:
    stage, asking = await block_during_an_answer(set_stage, no_worker_timeout=1.0)
    await asyncio.sleep(1.5)
    stage.broker.alarm = False
    back = time.monotonic()
    assert (await asking).json()["error"]["code"] == "worker_lost"
    assert time.monotonic() - back > 0.5  # without time of their own it would have ended at once


async def test_unexpected_exception_is_an_openai_shaped_500(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()

    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("gateway.http.job_submission.build_chat_job", broken)
    with capture_logs() as logs:
        response = await stage.chat()
    assert [line["event"] for line in logs] == ["request failed"]
    assert response.status_code == 500
    assert check(response.json())["type"] == "server_error"
    assert "secret" not in response.text
    assert response.headers["x-request-id"]
