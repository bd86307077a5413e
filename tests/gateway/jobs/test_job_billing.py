"""What requests are billed: the maximum is held before, and the reported usage is charged after, however they end."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace as replace_hold
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountClosed, AccountError, BudgetExhausted, InsufficientCredit, NoPrice
from auth_billing.money.holds import HoldRequest
from gateway.errors import ClientDisconnected
from gateway.jobs.job_billing import RequestBilling
from router.messages import (
    Delta,
    FailureCode,
    Finished,
    Job,
    Outcome,
    PromptBounds,
    Receipt,
    ReportedUsage,
    ServiceClass,
    Started,
    Step,
    StepState,
    Usage,
    UsagePart,
)
from router.producer.job_output import Acceptance, JobOutput
from router.usage_arithmetic import merged
from tests.contract.examples import JOB
from tests.fakes.scripted_worker import (
    PART_BOUNDS,
    ScriptedWorker,
    count,
    fail,
    never,
    start_and_wait,
    status,
    step_delta,
)
from tests.gateway.conftest import MODEL, Serve, SetStage, eventually, reset

NOTHING = Usage(prompt_tokens=0)
WIDE = Usage(prompt_tokens=10**6, units={"call": 10**6})
PAYER = Principal(key_id="key-1", tenant="tenant-1", cache_salt="")


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
async def test_a_client_is_billed_the_usage_in_its_answer(
    set_stage: SetStage, fields: dict[str, Any], stream: bool
) -> None:
    if stream and "best_of" in fields:
        pytest.skip("candidates are not streamed")
    stage = await set_stage()
    if stream:
        answer = await stage.chat(stream=True, stream_options={"include_usage": True}, **fields)
        said = told(last_chunk(answer.text))
    else:
        said = told((await stage.chat(**fields)).json())
    receipt = await stage.receipt()
    assert (receipt.usage, receipt.outcome) == (said, Outcome.FINISHED)
    assert receipt.tenant == "tenant-1"
    assert receipt.gateway == stage.gateway.billing.gateway
    assert receipt.job in stage.billing.held


async def test_each_prompt_has_a_receipt(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (await stage.complete(["a", "b", "c"], n=2, echo=True, logprobs=0)).json()
    await eventually(lambda: len(stage.receipts) == 3)
    assert told(body) == Usage(prompt_tokens=15, completion_tokens=30, cached_tokens=6)
    assert sum(receipt.usage.completion_tokens for receipt in stage.receipts) == 30
    assert sum(receipt.usage.prompt_tokens for receipt in stage.receipts) == 15


async def test_a_replayed_response_is_not_billed(set_stage: SetStage) -> None:
    stage = await set_stage()
    headers = {"idempotency-key": "once"}
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    answers = [await stage.client.post("/v1/chat/completions", json=body, headers=headers) for _ in range(3)]
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true", "true"]
    assert (await stage.receipt()).usage == told(answers[0].json())
    assert len(stage.billing.held) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_token_is_not_billed(set_stage: SetStage, stream: bool) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR))
    assert (await stage.chat(stream=stream)).status_code == 500
    receipt = await stage.receipt()
    assert (receipt.usage, receipt.outcome) == (NOTHING, Outcome.FAILED)


async def test_a_failed_whole_answer_is_not_billed(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    assert (await stage.chat()).status_code == 500
    assert (await stage.receipt()).usage == NOTHING


async def test_a_whole_answer_with_a_failed_job_is_not_billed(set_stage: SetStage) -> None:
    async def second_fails(worker: ScriptedWorker, job: Job) -> None:
        await (count if job.id.endswith("-1") else fail(FailureCode.ENGINE_ERROR, after_tokens=True))(worker, job)

    stage = await set_stage(second_fails)
    assert (await stage.complete(["a", "b"])).status_code == 500
    await eventually(lambda: len(stage.receipts) == 2)
    assert [receipt.usage for receipt in stage.receipts] == [NOTHING, NOTHING]


async def test_a_broken_stream_is_billed_for_the_delivered_tokens(serve: Serve) -> None:
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
    receipt = await server.stage.receipt()
    assert receipt.usage == Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=3)
    assert receipt.outcome is Outcome.FAILED


class _SameAttempt:
    """Sends as the worker does, all in one attempt."""

    def __init__(self, worker: ScriptedWorker, attempt: str) -> None:
        self._worker, self._attempt = worker, attempt

    def send(self, job: Job, *replies: Any) -> None:
        self._worker.send(job, *(replace(reply, attempt_id=self._attempt) for reply in replies))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_disconnected_client_is_billed_for_the_delivered_tokens(serve: Serve, stream: bool) -> None:
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
    receipt = await server.stage.receipt()
    assert receipt.usage == Usage(prompt_tokens=5, completion_tokens=2)
    assert receipt.outcome is Outcome.CANCELLED


async def test_a_disconnect_before_the_first_token_is_not_billed(serve: Serve) -> None:
    server = await serve(never)
    _, writer = await server.post()
    await eventually(lambda: bool(server.stage.worker.jobs))
    reset(writer)
    receipt = await server.stage.receipt()
    assert (receipt.usage, receipt.outcome) == (NOTHING, Outcome.CANCELLED)


@pytest.mark.parametrize(("stream", "paid"), [(True, Usage(prompt_tokens=5, completion_tokens=2)), (False, NOTHING)])
async def test_an_answer_after_its_deadline(set_stage: SetStage, stream: bool, paid: Usage) -> None:
    stage = await set_stage(start_and_wait, max_request_seconds=0.3)
    await stage.chat(stream=stream)
    assert (await stage.receipt()).usage == paid


async def test_a_client_can_not_end_a_paid_answer_for_free(set_stage: SetStage) -> None:
    async def slow(worker: ScriptedWorker, job: Job) -> None:
        await asyncio.sleep(1.5)
        await count(worker, job)

    stage = await set_stage(slow)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    answer = await stage.client.post(
        "/v1/chat/completions", json=body, headers={"x-stainless-read-timeout": "0.1", "x-stainless-timeout": "0.1"}
    )
    assert answer.status_code == 200
    assert (await stage.receipt()).usage == told(answer.json())


async def test_usage_above_the_hold_is_neither_reported_nor_billed(set_stage: SetStage) -> None:
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
    receipt = await stage.receipt()
    most = stage.billing.held[receipt.job].max_usage
    assert receipt.usage == said
    assert (said.prompt_tokens, said.completion_tokens) == (most.prompt_tokens, 2)


# What is held


async def test_the_maximum_usage_is_held(set_stage: SetStage) -> None:
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


async def test_a_model_without_a_price_is_refused(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.refusal = NoPrice(MODEL)
    answer = await stage.chat()
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
    assert answer.json()["error"]["code"] == "model_unavailable"
    assert not stage.worker.jobs


# Parts of steps


class RecordingPort:
    """Billing that keeps receipts."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []

    async def reserve(self, principal: Principal, holds: Sequence[HoldRequest]) -> None:
        """Hold nothing."""

    async def flush_jobs(self, jobs: Collection[str]) -> None:
        raise AssertionError(jobs)

    def submit_receipt(self, receipt: Receipt) -> asyncio.Event:
        self.receipts.append(receipt)
        return asyncio.Event()

    def void(self, jobs: Sequence[str]) -> None:
        raise AssertionError(jobs)

    def started(self, request: RequestBilling) -> None: ...

    def ended(self, request: RequestBilling) -> None: ...

    def checkpoint_soon(self) -> None: ...


HOLD = HoldRequest(
    "job-1", "m", ServiceClass.DEFAULT, "gateway-1", 1e10, Usage(prompt_tokens=9, completion_tokens=9), "", PART_BOUNDS
)
USED_IN_STEPS = st.lists(
    st.lists(
        st.builds(
            UsagePart,
            model=st.sampled_from([part.model for part in PART_BOUNDS]),
            usage=st.builds(Usage, prompt_tokens=st.integers(0, 8), units=st.sampled_from([{}, {"call": 1}])),
        ),
        max_size=2,
    ),
    max_size=6,
)


@given(
    USED_IN_STEPS, st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9))), st.sampled_from(["end", "dies", "fails"])
)
def test_the_bill_has_each_accepted_step_once(
    steps: list[list[UsagePart]], deliveries: list[tuple[int, int]], end: str
) -> None:
    """In any delivery with repeats, gaps and resumes; a checkpoint is what was accepted until then."""
    wide = replace_hold(HOLD, max_parts=tuple(UsagePart(model=each.model, usage=WIDE) for each in PART_BOUNDS))
    port = RecordingPort()
    billing = RequestBilling(port, PAYER, [wide], streamed=True)
    asyncio.run(billing.reserve())
    billing.queued(0)
    output = JobOutput(1)
    told = [Step(number=n, kind="tool", name="t", state=StepState.DONE, parts=parts) for n, parts in enumerate(steps)]
    replies = [step_delta(JOB, "a", start, step) for start, step in enumerate(told)]
    if end == "end":
        deliveries = [*deliveries, (0, len(replies))]
    accepted: list[Step] = []
    for first, last in deliveries:
        for reply in replies[first:last]:
            if output.accept(reply) is Acceptance.NEW:
                accepted.append(reply.step)  # type: ignore[arg-type]
                billing.take(0, reply)
        expected = merged(part for step in accepted for part in step.parts)
        saved = billing.unsaved_usage()
        assert not expected or not saved or by_model(saved["job-1"].parts) == by_model(expected)
        billing.checkpointed(saved)
        assert not billing.unsaved_usage()
    expected = merged(part for step in accepted for part in step.parts)
    assert by_model(billing.parts) == by_model(expected)
    if end == "dies":
        return  # the sweeper settles it to the checkpoint, which has all that was accepted
    billing.close(ClientDisconnected() if end == "fails" else RuntimeError())
    assert by_model(port.receipts[0].parts) == by_model(expected)
    free = RequestBilling(port, PAYER, [wide], streamed=False)
    asyncio.run(free.reserve())
    free.queued(0)
    for reply in replies:
        free.take(0, reply)
    free.close(RuntimeError())
    assert port.receipts[1].parts == []


def by_model(parts: Iterable[UsagePart]) -> dict[str, Usage]:
    """The usage of merged parts by model: a step that used nothing of a model does not fix the model's place."""
    return {part.model: part.usage for part in parts}


def test_parts_above_the_hold_and_of_other_models_are_not_billed() -> None:
    port = RecordingPort()
    billing = RequestBilling(port, PAYER, [HOLD], streamed=True)
    asyncio.run(billing.reserve())
    billing.queued(0)
    lies = [
        UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 4, "day": 1})),
        UsagePart(model="painter", usage=Usage(prompt_tokens=1)),
    ]
    step = Step(number=0, kind="tool", name="weather", state=StepState.DONE, parts=lies)
    billing.take(0, step_delta(JOB, "a", 0, step))
    billing.take(0, Finished(job_id="job-1", attempt_id="a1", usage=WIDE))
    billing.close(RuntimeError())
    [receipt] = port.receipts
    assert receipt.parts == [UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 3}))]
    assert receipt.usage != WIDE
    assert receipt.reported == ReportedUsage(attempt="a1", usage=WIDE, parts=tuple(lies))


@pytest.mark.parametrize(("answered", "billed"), [(0, 5), (3, 5), (6, 6)])
def test_the_answers_tokens_are_those_that_steps_have_shown_until_it_has_more(answered: int, billed: int) -> None:
    port = RecordingPort()
    billing = RequestBilling(port, PAYER, [HOLD], streamed=True)
    asyncio.run(billing.reserve())
    billing.queued(0)
    billing.take(0, Started(job_id="job-1", attempt_id="a", worker_id="w", prompt_tokens=7))
    for number, shown in enumerate((5, 2)):
        step = Step(number=number, kind="search", name="dvts", state=StepState.DONE, shown_tokens=shown)
        billing.take(0, step_delta(JOB, "a", number, step))
    assert billing.unsaved_usage()["job-1"].answer == Usage(prompt_tokens=7, completion_tokens=5)
    if answered:
        billing.take(0, Delta(job_id="job-1", attempt_id="a", start=2, token_ids=[1] * answered, text="x"))
    billing.close(ClientDisconnected())
    assert port.receipts[0].usage == Usage(prompt_tokens=7, completion_tokens=billed)


@pytest.mark.parametrize("in_background", [False, True])
def test_an_answer_that_is_abandoned_costs_nothing_if_no_client_waited_for_it(in_background: bool) -> None:
    port = RecordingPort()
    billing = RequestBilling(port, dataclasses.replace(PAYER, in_background=in_background), [HOLD], streamed=False)
    asyncio.run(billing.reserve())
    billing.queued(0)
    billing.take(0, Started(job_id="job-1", attempt_id="a", worker_id="w", prompt_tokens=7))
    billing.take(0, Delta(job_id="job-1", attempt_id="a", start=0, token_ids=[1, 2], text="x"))
    billing.close(ClientDisconnected())
    assert port.receipts[0].usage == (NOTHING if in_background else Usage(prompt_tokens=7, completion_tokens=2))


@pytest.mark.parametrize(("streamed", "finishes"), [(True, False), (False, False), (True, True)])
def test_only_a_finished_job_that_is_paid_for_has_what_its_worker_reported(streamed: bool, finishes: bool) -> None:
    port = RecordingPort()
    billing = RequestBilling(port, PAYER, [HOLD], streamed=streamed)
    asyncio.run(billing.reserve())
    billing.queued(0)
    if finishes:
        billing.take(0, Finished(job_id="job-1", attempt_id="a1", usage=NOTHING))
    billing.close(RuntimeError())
    assert (port.receipts[0].reported is not None) is finishes
