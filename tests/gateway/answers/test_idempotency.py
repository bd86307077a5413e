"""`Idempotency-Key`: a request runs once per key, however often and through whichever gateway it is sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tenacity import wait_fixed

from router.messages import Delta, FailureCode, Finished, Job, Started
from router.timings import Timings
from tests.fakes.accounts import DictIdempotencyStore
from tests.fakes.scripted_worker import ScriptedWorker, count, fail, usage
from tests.gateway.conftest import HI, MODEL, OTHER_KEY, SetStage, Stage, eventually

CHAT = "/v1/chat/completions"
REPLAYED = "idempotent-replayed"


async def ask(stage: Stage, key: str = "key-1", *, path: str = CHAT, **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": HI, "prompt": "hi", **fields}
    return await stage.client.post(path, json=body, headers={"idempotency-key": key})


async def settled(stage: Stage) -> None:
    """Whether all responses that will be stored are stored."""
    await eventually(lambda: not stage.gateway.idempotent._running)


class Held:
    """A script: two tokens, then one more as soon as `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, worker: ScriptedWorker, job: Job) -> None:
        worker.send(job, Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=1))
        worker.send(job, Delta(job_id=job.id, attempt_id="a", start=0, token_ids=[0, 1], text="0 1 "))
        cancelled = asyncio.create_task(worker.cancel_of(job.id).wait())
        going = asyncio.create_task(self.go.wait())
        await asyncio.wait({cancelled, going}, return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        going.cancel()
        if self.go.is_set():
            worker.send(
                job, Delta(job_id=job.id, attempt_id="a", start=2, token_ids=[2], text="2 ", finish_reason="stop")
            )
            worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=usage(job, 3)))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_a_stored_response_is_replayed(set_stage: SetStage, path: str, stream: bool) -> None:
    stage = await set_stage()
    first = await ask(stage, path=path, stream=stream)
    assert first.status_code == 200
    assert REPLAYED not in first.headers
    at_once = await ask(stage, path=path, stream=stream)
    await settled(stage)
    later = await ask(stage, path=path, stream=stream)
    for again in (at_once, later):
        assert again.status_code == 200
        assert again.headers[REPLAYED] == "true"
        assert again.text == first.text
        assert again.headers["content-type"] == first.headers["content-type"]
        assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert first.text.endswith("data: [DONE]\n\n") == stream
    assert len(stage.worker.jobs) == 1


async def test_a_response_is_stored_after_its_job(set_stage: SetStage) -> None:
    stage = await set_stage()

    async def unwritten(worker: ScriptedWorker, job: Job) -> None:
        stage.billing.unwritten.add(job.id)
        await count(worker, job)

    stage.worker.script = unwritten
    asking = asyncio.create_task(ask(stage))
    await eventually(lambda: any(running.received for running in stage.gateway.idempotent._running.values()))
    await asyncio.sleep(0.05)  # a response that does not wait is stored by now
    (record,) = stage.idempotency.records.values()
    assert record.answer is None
    stage.billing.unwritten.clear()
    assert (await asking).status_code == 200
    await settled(stage)
    (record,) = stage.idempotency.records.values()
    assert record.answer is not None
    assert len(record.answer.receipts) == 1


async def test_twenty_concurrent_requests_with_a_key_run_one_job(set_stage: SetStage) -> None:
    stage = await set_stage()
    answers = await asyncio.gather(*(ask(stage) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert sum(REPLAYED not in answer.headers for answer in answers) == 1
    assert len(stage.worker.jobs) == 1


async def test_without_a_key_nothing_is_deduplicated_or_stored(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.idempotency.absence.away = True
    for _ in range(2):
        assert (await stage.chat()).status_code == 200
    assert len(stage.worker.jobs) == 2
    assert stage.idempotency.absence.asked == 0


async def test_a_request_does_not_run_while_its_key_cannot_be_claimed(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.idempotency.absence.away = True
    answers = await asyncio.gather(ask(stage), ask(stage))
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "billing_unavailable"
        assert answer.headers["retry-after"]
    stage.idempotency.absence.away = False
    assert (await ask(stage)).status_code == 200
    assert len(stage.worker.jobs) == 1


@pytest.mark.parametrize("wait", [True, False], ids=["answered", "running"])
async def test_the_same_key_with_another_body_is_refused(set_stage: SetStage, wait: bool) -> None:
    held = Held()
    stage = await set_stage(held)
    first = asyncio.create_task(ask(stage))
    await stage.worker.received.wait()
    if wait:
        held.go.set()
        await first
        await settled(stage)
    for fields in ({"temperature": 0.5}, {"stream": True}, {"unknown": 1}):
        other = await ask(stage, **fields)
        assert other.status_code == 400
        assert other.json()["error"]["code"] == "idempotency_key_reused"
    held.go.set()
    assert (await first).status_code == 200
    assert len(stage.worker.jobs) == 1


async def test_key_order_and_white_space_do_not_change_the_fingerprint(set_stage: SetStage) -> None:
    stage = await set_stage()
    headers = {"idempotency-key": "k", "content-type": "application/json"}
    body = {"model": MODEL, "messages": HI}
    one = await stage.client.post(CHAT, content=json.dumps(body), headers=headers)
    other = await stage.client.post(CHAT, content=json.dumps(dict(reversed(body.items())), indent=2), headers=headers)
    assert one.text == other.text


async def test_keys_are_separate_by_tenant_and_endpoint(set_stage: SetStage) -> None:
    """H72."""
    stage = await set_stage()
    mine = await ask(stage)
    elsewhere = await ask(stage, path="/v1/completions")
    stage.client.headers["authorization"] = f"Bearer {OTHER_KEY}"
    theirs = await ask(stage, temperature=0.5)
    assert [answer.status_code for answer in (mine, elsewhere, theirs)] == [200] * 3
    assert REPLAYED not in {*mine.headers, *elsewhere.headers, *theirs.headers}
    assert [job.tenant for job in stage.worker.jobs] == ["tenant-1", "tenant-1", "tenant-2"]


async def test_an_unauthenticated_caller_gets_no_stored_response(set_stage: SetStage) -> None:
    stage = await set_stage()
    await ask(stage)
    asked = stage.idempotency.absence.asked
    stage.client.headers["authorization"] = "Bearer hr_live_unknown"
    assert (await ask(stage)).status_code == 401
    assert (await ask(stage, "")).status_code == 401
    assert stage.idempotency.absence.asked == asked


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"x" * 10_000, "é".encode(), b"a\tb", b"\x7f", b"\xff"])
async def test_invalid_keys_are_refused(set_stage: SetStage, key: bytes) -> None:
    """H72; CR and LF end a header long before us."""
    stage = await set_stage()
    response = await stage.client.post(
        CHAT,
        json={"model": MODEL, "messages": HI},
        headers=[(b"idempotency-key", key)],
    )
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_idempotency_key", "Idempotency-Key")
    assert stage.worker.jobs == []
    assert stage.idempotency.absence.asked == 0


async def test_two_key_headers_are_refused(set_stage: SetStage) -> None:
    stage = await set_stage()
    headers = [("idempotency-key", "a"), ("idempotency-key", "b")]
    response = await stage.client.post(CHAT, json={"model": MODEL, "messages": HI}, headers=headers)
    assert response.json()["error"]["code"] == "invalid_idempotency_key"


@pytest.mark.parametrize("key", ["x", " ", "x" * 255, "a'b\"{$ne:1}", "../../etc/passwd"])
async def test_valid_keys_are_accepted(set_stage: SetStage, key: str) -> None:
    stage = await set_stage()
    for _ in range(2):
        assert (await ask(stage, f"<{key}>"[:255])).status_code == 200
    assert len(stage.worker.jobs) == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"temperature": 3}, 400), ({"n": 17}, 400), ({"messages": 5}, 400)],
)
async def test_a_client_error_is_replayed(set_stage: SetStage, fields: dict[str, Any], status: int) -> None:
    stage = await set_stage()
    first = await ask(stage, **fields)
    await settled(stage)
    again = await ask(stage, **fields)
    assert first.status_code == again.status_code == status
    assert first.json() == again.json()
    assert again.headers[REPLAYED] == "true"


async def test_an_unknown_model_is_looked_up_again(set_stage: SetStage) -> None:
    """A gateway that has just started knows only some of the served models."""
    stage = await set_stage()
    assert (await ask(stage, model="nobody")).status_code == 404
    await settled(stage)
    assert REPLAYED not in (await ask(stage, model="nobody")).headers
    assert not stage.idempotency.records


@pytest.mark.parametrize(
    ("content", "status"), [(b"{", 400), (b'{"a": NaN}', 400), (b" " * 5_000_000, 413)], ids=["{", "NaN", "5 MB"]
)
async def test_an_unreadable_body_is_refused_and_not_stored(set_stage: SetStage, content: bytes, status: int) -> None:
    stage = await set_stage()
    headers = {"idempotency-key": "key-1", "content-type": "application/json"}
    assert (await stage.client.post(CHAT, content=content, headers=headers)).status_code == status
    assert stage.idempotency.absence.asked == 0
    assert (await ask(stage)).status_code == 200


async def test_a_failure_is_not_replayed_before_the_store_knows_of_it(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.idempotency.RECORD_TIMEOUT", 0.05)
    held = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        await held.wait()
        await fail(FailureCode.WORKER_SHUTDOWN)(worker, job)

    stage = await set_stage(script)
    first = asyncio.create_task(ask(stage))
    await stage.worker.received.wait()
    stage.idempotency.absence.away = True
    held.set()
    assert (await first).status_code == 503
    early = await ask(stage)
    assert early.json()["error"]["code"] == "idempotency_key_in_use"
    stage.idempotency.absence.away = False
    stage.worker.script = count
    await settled(stage)
    assert (await ask(stage)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("code", "after_tokens"),
    [
        (FailureCode.WORKER_SHUTDOWN, False),
        (FailureCode.ENGINE_ERROR, False),
        (FailureCode.DEADLINE_EXCEEDED, False),
        (FailureCode.ENGINE_ERROR, True),
    ],
)
async def test_a_server_error_is_not_replayed(
    set_stage: SetStage, code: FailureCode, after_tokens: bool, stream: bool
) -> None:
    stage = await set_stage(fail(code, after_tokens=after_tokens))
    first = await ask(stage, stream=stream)
    assert '"error":' in first.text
    await settled(stage)
    assert stage.idempotency.records == {}
    stage.worker.script = count
    again = await ask(stage, stream=stream)
    assert again.status_code == 200
    assert '"error":' not in again.text
    assert REPLAYED not in again.headers
    assert len(stage.worker.jobs) == 2


async def test_a_failing_route_is_a_500_for_all_readers_and_runs_again(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()

    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr("gateway.http.job_submission.build_chat_job", broken)
        answers = await asyncio.gather(ask(stage), ask(stage))
    assert [answer.status_code for answer in answers] == [500, 500]
    assert all(answer.json()["error"].keys() == {"message", "type", "param", "code"} for answer in answers)
    assert {line["event"] for line in logs} == {"request failed"}
    await settled(stage)
    assert (await ask(stage)).status_code == 200


async def test_a_running_request_renews_its_lease(set_stage: SetStage) -> None:
    held = Held()
    stage = await set_stage(held, timings=Timings(idempotency_renewal_interval=0.01))
    first = asyncio.create_task(ask(stage))
    await stage.worker.received.wait()
    (record,) = stage.idempotency.records.values()
    stage.idempotency.absence.failures = 2  # a store that is away for a moment ends nothing
    await eventually(lambda: stage.idempotency.records[record.id].lease > record.lease)
    held.go.set()
    assert (await first).status_code == 200


async def test_a_response_is_stored_when_the_store_is_available_again(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.idempotency.DEFAULT_WAIT", wait_fixed(0.01))
    held = Held()
    stage = await set_stage(held)
    first = asyncio.create_task(ask(stage))
    await stage.worker.received.wait()
    stage.idempotency.absence.failures = 5
    held.go.set()
    assert (await first).status_code == 200
    await settled(stage)
    assert (await ask(stage)).headers[REPLAYED] == "true"
    assert len(stage.worker.jobs) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_no_client_has_a_whole_response_that_is_not_stored(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Nor is one billed that is not stored: if the gateway dies, the request runs again."""
    monkeypatch.setattr("gateway.answers.idempotency.DEFAULT_WAIT", wait_fixed(0.01))
    store = DictIdempotencyStore()
    held = Held()
    here = await set_stage(held, idempotency=store)
    first = asyncio.create_task(ask(here, stream=stream))
    await here.worker.received.wait()
    store.absence.away = True
    held.go.set()
    await eventually(lambda: len(here.gateway.inbox) == 0)
    await asyncio.sleep(0.05)
    assert not first.done(), "the store does not have the response"
    assert here.receipts == []
    store.absence.away = False
    answer = await first
    assert answer.status_code == 200
    there = await set_stage(idempotency=store)
    again = await ask(there, stream=stream)
    assert (again.text, again.headers[REPLAYED]) == (answer.text, "true")
    assert there.worker.jobs == []


async def test_an_overlong_response_is_delivered_but_not_stored(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.MAX_BYTES", 300)
    stage = await set_stage()
    first = await ask(stage)
    assert first.status_code == 200
    assert "4 " in first.text
    await settled(stage)
    again = await ask(stage)
    assert again.status_code == 409
    assert again.headers["x-should-retry"] == "false"
    assert again.json()["error"]["code"] == "idempotent_answer_not_kept"
    assert len(stage.worker.jobs) == 1


async def test_a_response_that_the_store_refuses_is_not_kept(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.idempotency.largest = 10
    assert (await ask(stage)).status_code == 200
    await settled(stage)
    assert (await ask(stage)).json()["error"]["code"] == "idempotent_answer_not_kept"
