"""The gateway's billing between requests, the store and the broker: holds, receipts, voids, checkpoints, heartbeats."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from gateway.jobs import gateway_billing, job_billing
from gateway.jobs.gateway_billing import MAX_RESERVING
from router import bus
from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.messages import (
    Delta,
    Finished,
    Job,
    Receipt,
    Started,
    Usage,
)
from router.timings import Timings
from router.usage_arithmetic import JobUsage
from runtime.circuit_breaker import FAILURES
from tests.fakes.scripted_worker import ScriptedWorker, say, usage
from tests.gateway.conftest import KEY, Serve, SetStage, Stage, eventually, reset

NOTHING = Usage(prompt_tokens=0)


@pytest.mark.parametrize("error", [Unroutable("x"), QueueFull("x"), BrokerUnavailable("x"), PublishUnknown("x")])
async def test_the_hold_of_a_job_that_is_not_queued_is_released(
    set_stage: SetStage, error: PublishError, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()
    publish = stage.gateway.bus.publish_job

    async def all_but_the_second(job: Job, headers: Any) -> None:
        if job.id.endswith("-1"):
            raise error
        await publish(job, headers)

    monkeypatch.setattr(stage.gateway.bus, "publish_job", all_but_the_second)
    assert (await stage.complete(["a", "b", "c"])).status_code == 503
    await eventually(stage.is_settled)
    assert [job[-2:] for job in stage.billing.voided] == ["-1"]
    assert [receipt.usage for receipt in stage.receipts] == [NOTHING] * 2


async def test_the_hold_of_a_request_that_is_too_large_is_released(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()
    monkeypatch.setattr(bus, "MAX_JOB_BYTES", 1000)
    answer = await stage.chat(messages=[{"role": "user", "content": "x" * 1000}])
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (413, "request_too_large")
    assert "together with its files, images and stored context" in error["message"]
    await eventually(stage.is_settled)
    assert stage.billing.voided == list(stage.billing.held)
    assert (stage.receipts, stage.worker.jobs) == ([], [])


async def test_a_hold_of_unknown_outcome_is_released(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.lost_answers = 1
    answer = await stage.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "billing_unavailable")
    assert answer.headers["retry-after"] == "5"
    await eventually(lambda: stage.billing.voided == list(stage.billing.held))
    assert not stage.worker.jobs


async def test_a_disconnect_while_the_hold_is_taken(serve: Serve) -> None:
    server = await serve()
    billing = server.stage.billing
    billing.slow = asyncio.Event()
    _, writer = await server.post()
    await eventually(lambda: billing.asked == 1)
    reset(writer)
    await eventually(lambda: not server.stage.gateway.inbox._jobs or _has_failed(server.stage))
    billing.slow.set()
    await eventually(lambda: billing.voided == list(billing.held) and bool(billing.held))
    assert not server.stage.worker.jobs


def _has_failed(stage: Stage) -> bool:
    return any(job.unread._error for job in stage.gateway.inbox._jobs.values())


async def test_a_failing_store_is_not_called(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_billing, "STORE_PAUSE", 60.0)
    stage = await set_stage()
    stage.billing.away = True
    for _ in range(FAILURES + 5):
        assert (await stage.chat()).json()["error"]["code"] == "billing_unavailable"
    assert stage.billing.asked == FAILURES
    stage.billing.away = False
    stage.gateway.billing._breaker._open_until = 0.0  # the rest is over
    assert (await stage.chat()).status_code == 200
    assert (await stage.chat()).status_code == 200


async def test_the_number_of_requests_that_wait_for_a_hold_is_limited(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_billing, "MAX_RESERVING", 4)
    stage = await set_stage(timings=Timings(reserve_timeout=60.0))
    stage.billing.slow = asyncio.Event()
    asking = asyncio.as_completed([stage.chat() for _ in range(20)])
    refused = [await next(asking) for _ in range(16)]
    assert {answer.status_code for answer in refused} == {503}
    assert stage.billing.asked == 4
    stage.billing.slow.set()
    assert {(await answer).status_code for answer in asking} == {200}
    assert MAX_RESERVING > 4


async def test_a_hold_that_takes_too_long_is_refused(set_stage: SetStage) -> None:
    stage = await set_stage(timings=Timings(reserve_timeout=0.1))
    stage.billing.slow = asyncio.Event()
    assert (await stage.chat()).status_code == 503


async def test_receipts_are_retried_until_the_broker_confirms(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()
    publish, tries = stage.gateway.bus.publish_settlement, 0

    async def away_at_first(receipt: Receipt) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise BrokerUnavailable("away")
        await publish(receipt)

    monkeypatch.setattr(stage.gateway.bus, "publish_settlement", away_at_first)
    assert (await stage.chat()).status_code == 200
    assert not stage.receipts
    assert (await stage.receipt()).usage.completion_tokens == 5
    assert tries == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_ends_when_its_receipt_is_confirmed(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """A gateway that is killed after its client has the whole answer has billed it."""
    monkeypatch.setattr(job_billing, "FLUSH_DELAY", 0.0)
    stage = await set_stage()
    publish, confirms, delivered = stage.gateway.bus.publish_settlement, asyncio.Event(), asyncio.Event()

    async def confirm_later(receipt: Receipt) -> None:
        delivered.set()
        await confirms.wait()
        await publish(receipt)

    monkeypatch.setattr(stage.gateway.bus, "publish_settlement", confirm_later)
    asking = asyncio.create_task(stage.chat(stream=stream))
    await delivered.wait()
    await asyncio.sleep(0.05)
    assert not asking.done()
    confirms.set()
    assert (await asking).status_code == 200
    assert (await stage.receipt()).usage.completion_tokens == 5


async def test_an_answer_does_not_wait_for_its_receipt_for_ever(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_billing, "FLUSH_DELAY", 0.0)
    stage = await set_stage(timings=Timings(unreachable_after=0.05))

    async def away(_receipt: Receipt) -> None:
        raise BrokerUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(stage.gateway.bus, "publish_settlement", away)
        assert (await stage.chat()).status_code == 200
        assert not stage.receipts
    assert (await stage.receipt()).usage.completion_tokens == 5


async def test_a_receipt_waits_for_its_own_jobs_document_only(set_stage: SetStage) -> None:
    stage = await set_stage()
    billing = stage.billing
    is_written, unwritten = billing.is_written, 0

    def first_is_unwritten(job: str) -> bool:
        nonlocal unwritten
        unwritten += 1
        if unwritten == 1:
            billing.unwritten.add(job)
        return is_written(job)

    billing.is_written = first_is_unwritten  # type: ignore[method-assign]
    assert (await stage.chat()).status_code == 200
    (early,) = billing.unwritten
    assert (await stage.chat()).status_code == 200
    assert (await stage.receipt()).job != early
    billing.unwritten.clear()
    await eventually(lambda: early in [receipt.job for receipt in stage.receipts])


async def test_voids_are_retried_until_the_store_is_available(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage()

    async def full(job: Job, headers: Any) -> None:
        stage.billing.away = True
        raise QueueFull("x")

    monkeypatch.setattr(stage.gateway.bus, "publish_job", full)
    assert (await stage.chat()).json()["error"]["code"] == "overloaded"
    stage.billing.away = False
    await eventually(lambda: stage.billing.voided == list(stage.billing.held))


async def test_checkpoints_have_the_delivered_usage(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_billing, "MIN_CHECKPOINT_INTERVAL", 0.0)
    go_on = asyncio.Event()

    async def talk(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=5))
        for start in (0, 32):
            worker.send(job, Delta(job_id=job.id, attempt_id=attempt, start=start, token_ids=list(range(32)), text="x"))
        await go_on.wait()
        worker.send(
            job, Delta(job_id=job.id, attempt_id=attempt, start=64, token_ids=[1], text="x", finish_reason="stop")
        )
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 65)))

    stage = await set_stage(talk)
    asking = asyncio.create_task(stage.chat(stream=True))
    await eventually(lambda: bool(stage.billing.checkpoints))
    (job,) = stage.billing.held
    assert stage.billing.checkpoints[-1] == {job: JobUsage(Usage(prompt_tokens=5, completion_tokens=64))}
    go_on.set()
    assert (await asking).status_code == 200


async def test_the_gateways_heartbeat_is_recorded_from_the_start(set_stage: SetStage) -> None:
    stage = await set_stage(say("a"))
    await eventually(lambda: bool(stage.billing.renewed))
    assert set(stage.billing.renewed) == {stage.gateway.billing.gateway}
    assert stage.gateway.billing.gateway.startswith("gateway-1-")
    assert KEY not in stage.gateway.billing.gateway
