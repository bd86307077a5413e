"""What requests pay for: held before, told and billed alike after, whatever ends them."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest
from msgspec.structs import replace

from auth_billing.errors import AccountClosed, AccountError, BudgetExhausted, InsufficientCredit, NoPrice
from gateway.jobs import gateway_billing
from gateway.jobs.gateway_billing import MAX_RESERVING
from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.messages import (
    Delta,
    FailureCode,
    Finished,
    Job,
    Outcome,
    PromptBounds,
    Receipt,
    Started,
    Usage,
)
from runtime.circuit_breaker import FAILURES
from tests.fakes.scripted_worker import ScriptedWorker, count, fail, never, say, start_and_wait, status, usage
from tests.gateway.conftest import KEY, MODEL, Serve, SetStage, Stage, eventually, reset

NOTHING = Usage(prompt_tokens=0)


async def receipt_of(stage: Stage) -> Receipt:
    """The only one."""
    await eventually(lambda: bool(stage.receipts))
    (receipt,) = stage.receipts
    return receipt


def told(body: dict[str, Any]) -> Usage:
    said = body["usage"]
    return Usage(
        prompt_tokens=said["prompt_tokens"],
        completion_tokens=said["completion_tokens"],
        cached_tokens=said["prompt_tokens_details"]["cached_tokens"],
    )


def last_chunk(text: str) -> dict[str, Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    chunk: dict[str, Any] = json.loads(lines[-1])
    return chunk


# What is paid


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 3},
        {"stop": ["2 "]},
        {"logprobs": True, "top_logprobs": 1},
        {"max_tokens": 1},
        {"best_of": 2},
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_pays_what_it_is_told(set_stage: SetStage, fields: dict[str, Any], stream: bool) -> None:
    if stream and "best_of" in fields:
        pytest.skip("candidates are not streamed")
    stage = await set_stage()
    if stream:
        answer = await stage.chat(stream=True, stream_options={"include_usage": True}, **fields)
        said = told(last_chunk(answer.text))
    else:
        said = told((await stage.chat(**fields)).json())
    receipt = await receipt_of(stage)
    assert (receipt.usage, receipt.outcome) == (said, Outcome.FINISHED)
    assert receipt.tenant == "tenant-1"
    assert receipt.gateway == stage.gateway.billing.gateway
    assert receipt.job in stage.billing.held


async def test_several_prompts_are_several_receipts(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (await stage.complete(["a", "b", "c"], n=2, echo=True, logprobs=0)).json()
    await eventually(lambda: len(stage.receipts) == 3)
    assert told(body) == Usage(prompt_tokens=15, completion_tokens=30, cached_tokens=6)
    assert sum(receipt.usage.completion_tokens for receipt in stage.receipts) == 30
    assert sum(receipt.usage.prompt_tokens for receipt in stage.receipts) == 15


async def test_a_repeated_answer_costs_nothing(set_stage: SetStage) -> None:
    stage = await set_stage()
    headers = {"idempotency-key": "once"}
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    answers = [await stage.client.post("/v1/chat/completions", json=body, headers=headers) for _ in range(3)]
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true", "true"]
    assert (await receipt_of(stage)).usage == told(answers[0].json())
    assert len(stage.billing.held) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_what_fails_before_its_first_token_is_free(set_stage: SetStage, stream: bool) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR))
    assert (await stage.chat(stream=stream)).status_code == 500
    receipt = await receipt_of(stage)
    assert (receipt.usage, receipt.outcome) == (NOTHING, Outcome.FAILED)


async def test_a_whole_answer_that_fails_is_free(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    assert (await stage.chat()).status_code == 500
    assert (await receipt_of(stage)).usage == NOTHING


async def test_a_whole_answer_of_which_a_part_fails_is_free(set_stage: SetStage) -> None:
    async def second_fails(worker: ScriptedWorker, job: Job) -> None:
        await (count if job.id.endswith("-1") else fail(FailureCode.ENGINE_ERROR, after_tokens=True))(worker, job)

    stage = await set_stage(second_fails)
    assert (await stage.complete(["a", "b"])).status_code == 500
    await eventually(lambda: len(stage.receipts) == 2)
    assert [receipt.usage for receipt in stage.receipts] == [NOTHING, NOTHING]


async def test_a_stream_that_breaks_costs_what_was_streamed(serve: Serve) -> None:
    received = asyncio.Event()

    async def break_off(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=5))
        worker.send(
            job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[0, 1], text="0 1 ", cached_tokens=3)
        )
        await received.wait()
        await fail(FailureCode.ENGINE_ERROR)(_SameAttempt(worker, attempt), job)  # type: ignore[arg-type]

    server = await serve(break_off)
    reader, writer = await server.post(stream=True)
    await reader.readuntil(b'"0 1 "')
    received.set()
    await reader.readuntil(b'"code":"engine_error"')
    writer.close()
    receipt = await receipt_of(server.stage)
    assert receipt.usage == Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=3)
    assert receipt.outcome is Outcome.FAILED


class _SameAttempt:
    """Sends as the worker does, all in one attempt."""

    def __init__(self, worker: ScriptedWorker, attempt: str) -> None:
        self._worker, self._attempt = worker, attempt

    def send(self, job: Job, *replies: Any) -> None:
        self._worker.send(job, *(replace(reply, attempt_id=self._attempt) for reply in replies))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_pays_for_what_it_got(serve: Serve, stream: bool) -> None:
    server = await serve(start_and_wait)
    reader, writer = await server.post(stream=stream)
    if stream:
        await reader.readuntil(b'"0 1 "')
    else:
        await eventually(lambda: bool(server.stage.worker.jobs))
        await eventually(lambda: bool(server.stage.gateway.billing._requests))
        (running,) = server.stage.gateway.billing._requests
        await eventually(lambda: bool(running.unsaved_usage()))
    reset(writer)
    receipt = await receipt_of(server.stage)
    assert receipt.usage == Usage(prompt_tokens=5, completion_tokens=2)
    assert receipt.outcome is Outcome.CANCELLED


async def test_a_client_that_goes_before_the_first_token_pays_nothing(serve: Serve) -> None:
    server = await serve(never)
    _, writer = await server.post()
    await eventually(lambda: bool(server.stage.worker.jobs))
    reset(writer)
    receipt = await receipt_of(server.stage)
    assert (receipt.usage, receipt.outcome) == (NOTHING, Outcome.CANCELLED)


@pytest.mark.parametrize(("stream", "paid"), [(True, Usage(prompt_tokens=5, completion_tokens=2)), (False, NOTHING)])
async def test_an_answer_that_comes_too_late(set_stage: SetStage, stream: bool, paid: Usage) -> None:
    stage = await set_stage(start_and_wait, max_request_seconds=0.3)
    await stage.chat(stream=stream)
    assert (await receipt_of(stage)).usage == paid


async def test_more_than_was_held_is_neither_told_nor_paid(set_stage: SetStage) -> None:
    async def lie(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=5))
        worker.send(
            job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[0], text="0 ", finish_reason="stop")
        )
        used = Usage(prompt_tokens=10**12, completion_tokens=10**12, cached_tokens=10**11)
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=used))

    stage = await set_stage(lie)
    said = told((await stage.chat(max_tokens=2)).json())
    receipt = await receipt_of(stage)
    most = stage.billing.held[receipt.job].max_usage
    assert receipt.usage == said
    assert (said.prompt_tokens, said.completion_tokens) == (most.prompt_tokens, 2)


# What is held


async def test_the_most_that_a_request_may_use_is_held(set_stage: SetStage) -> None:
    stage = await set_stage(default_max_tokens=20)
    await stage.chat(n=2)
    await stage.complete([1, 2, 3], max_tokens=4, best_of=3)
    (first, second) = stage.billing.held.values()
    assert first.max_usage == Usage(prompt_tokens=128, completion_tokens=40)
    assert second.max_usage == Usage(prompt_tokens=3, completion_tokens=12)
    assert (first.model, first.gateway) == (MODEL, stage.gateway.billing.gateway)
    assert stage.billing.payers[first.job].key_id == "key-1"
    bounds = PromptBounds(per_byte=1, per_text=2, per_conversation=7, per_message=3)
    stage.worker.bus.send_status(_with(status(MODEL), bounds))
    await eventually(lambda: all(model.prompt_bounds == bounds for model in stage.gateway.models.models()))
    await stage.chat("four")
    assert list(stage.billing.held.values())[2].max_usage == Usage(prompt_tokens=14, completion_tokens=20)


def _with(heartbeat: Any, bounds: PromptBounds) -> Any:
    return replace(heartbeat, prompt_bounds=bounds)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InsufficientCredit(5_000_000, 12_345_678), "insufficient_quota", "0.012345678 USD; 0.005 USD"),
        (BudgetExhausted("key:abc", 0, 10**9), "insufficient_quota", "this API key"),
        (BudgetExhausted("project:proj_1", 0, 10**9), "insufficient_quota", "this project"),
        (BudgetExhausted("organisation", 0, 10**9), "insufficient_quota", "this organization"),
        (BudgetExhausted("organisation", -5, 10**9), "insufficient_quota", "; 0.00 USD of the monthly budget"),
        (AccountClosed(), "billing_not_active", "not active"),
    ],
)
async def test_without_credit_nothing_is_queued(
    set_stage: SetStage, error: AccountError, code: str, words: str
) -> None:
    stage = await set_stage()
    stage.billing.refusal = error
    for answer in (await stage.chat(), await stage.chat(stream=True), await stage.complete()):
        assert answer.status_code == 429
        assert answer.headers["x-should-retry"] == "false"
        said = answer.json()["error"]
        assert (said["type"], said["code"], said["param"]) == ("insufficient_quota", code, None)
        assert words in said["message"]
    assert not stage.worker.jobs
    stage.billing.refusal = None
    assert (await stage.chat()).status_code == 200


async def test_a_model_that_nobody_has_priced_is_not_given_away(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.refusal = NoPrice(MODEL)
    answer = await stage.chat()
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
    assert answer.json()["error"]["code"] == "model_unavailable"
    assert not stage.worker.jobs


@pytest.mark.parametrize("error", [Unroutable("x"), QueueFull("x"), BrokerUnavailable("x"), PublishUnknown("x")])
async def test_what_may_not_be_queued_is_given_back(
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


async def test_a_hold_that_is_not_known_is_given_back(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.lost_answers = 1
    answer = await stage.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "billing_unavailable")
    assert answer.headers["retry-after"] == "5"
    await eventually(lambda: stage.billing.voided == list(stage.billing.held))
    assert not stage.worker.jobs


async def test_a_client_that_goes_while_its_hold_is_taken(serve: Serve) -> None:
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
    return any(job.unread.failed for job in stage.gateway.inbox._jobs.values())


# When something is away


async def test_a_store_that_keeps_failing_is_not_asked(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_slow_store_gathers_no_crowd(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_billing, "RESERVE_TIMEOUT", 60.0)
    monkeypatch.setattr(gateway_billing, "MAX_RESERVING", 4)
    stage = await set_stage()
    stage.billing.slow = asyncio.Event()
    asking = asyncio.as_completed([stage.chat() for _ in range(20)])
    refused = [await next(asking) for _ in range(16)]
    assert {answer.status_code for answer in refused} == {503}
    assert stage.billing.asked == 4
    stage.billing.slow.set()
    assert {(await answer).status_code for answer in asking} == {200}
    assert MAX_RESERVING > 4


async def test_a_store_that_is_too_slow_is_not_waited_for(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_billing, "RESERVE_TIMEOUT", 0.1)
    stage = await set_stage()
    stage.billing.slow = asyncio.Event()
    assert (await stage.chat()).status_code == 503


async def test_a_receipt_waits_for_the_broker(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (await receipt_of(stage)).usage.completion_tokens == 5
    assert tries == 3


async def test_a_void_waits_for_the_store(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await set_stage()

    async def full(job: Job, headers: Any) -> None:
        stage.billing.away = True
        raise QueueFull("x")

    monkeypatch.setattr(stage.gateway.bus, "publish_job", full)
    assert (await stage.chat()).json()["error"]["code"] == "overloaded"
    stage.billing.away = False
    await eventually(lambda: stage.billing.voided == list(stage.billing.held))


# Meanwhile


async def test_checkpoints_say_what_clients_have(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert stage.billing.checkpoints[-1] == {job: Usage(prompt_tokens=5, completion_tokens=64)}
    go_on.set()
    assert (await asking).status_code == 200


async def test_the_lease_is_renewed_from_the_start(set_stage: SetStage) -> None:
    stage = await set_stage(say("a"))
    await eventually(lambda: bool(stage.billing.renewed))
    assert set(stage.billing.renewed) == {stage.gateway.billing.gateway}
    assert stage.gateway.billing.gateway.startswith("gateway-1-")
    assert KEY not in stage.gateway.billing.gateway
