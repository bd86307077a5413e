"""Admission control: overload is refused at once with a `Retry-After`; waiting requests see their queue position."""

from __future__ import annotations

import asyncio
import math
import time

import msgspec
import pytest

from gateway.admission import controller
from router import control_targets
from router.messages import Delta, Finished, GatewayLoad, Job, QueuedWork, ServiceClass, Started
from tests.fakes.scripted_worker import ScriptedWorker, count, never, status, usage
from tests.gateway.conftest import HI, MODEL, Serve, SetStage, Stage, eventually


def full_fleet(stage: Stage, rate: float | None) -> None:
    """One worker of 8 places, and for now time stands still: jobs wait for it, and it makes `rate` tokens a second."""
    stage.gateway.models._clock = lambda: 0.0
    stage.gateway.queues._others._clock = lambda: 0.0
    beat = msgspec.structs.replace(status(MODEL), started=1.0)
    for _ in range(2):
        full = {} if rate is None else {"running": 8, "waiting": 1, "tokens_per_second": rate}
        stage.gateway.models.observe(msgspec.structs.replace(beat, **full))


def elsewhere(tokens: int, service_class: ServiceClass = ServiceClass.DEFAULT) -> GatewayLoad:
    """What another gateway says of ten jobs that wait there and of eight that run."""
    work = QueuedWork(model=MODEL, service_class=service_class, waiting=10, tokens=tokens, running=8)
    return GatewayLoad(gateway="gateway-2", queues=[work])


async def told(stage: Stage, load: GatewayLoad) -> None:
    stage.worker.bus.send_control(control_targets.GATEWAYS, load)
    await eventually(lambda: "gateway-2" in stage.gateway.queues._others._reports)


@pytest.mark.parametrize(
    ("tokens", "tier", "retry_after"),
    [(10_000, "default", "11"), (10_000, "priority", None), (50_000, "flex", None), (80_000, "flex", "60")],
)
async def test_a_request_with_too_long_a_wait_is_refused_with_a_retry_after(
    set_stage: SetStage, tokens: int, tier: str, retry_after: str | None
) -> None:
    stage = await set_stage()
    full_fleet(stage, rate=1000.0)
    await told(stage, elsewhere(tokens))
    answer = await stage.chat(service_tier=tier)
    refused = stage.gateway.metrics.overloaded.labels("wait")._value.get()
    if retry_after is None:
        assert answer.status_code == 200
        return
    assert (answer.status_code, answer.json()["error"]["code"], refused) == (503, "overloaded", 1)
    assert answer.headers["retry-after"] == retry_after
    assert answer.headers["x-ratelimit-limit-requests"]
    assert stage.worker.jobs == []
    assert stage.billing.held == {}


async def test_concurrent_requests_are_counted_before_any_is_queued(set_stage: SetStage) -> None:
    """256 tokens each at 100 a second: the fourth would wait for more than ten seconds."""
    stage = await set_stage(never, header_delay=0.0)
    full_fleet(stage, rate=100.0)
    work = QueuedWork(model=MODEL, service_class=ServiceClass.DEFAULT, running=8)
    stage.gateway.queues.observe(GatewayLoad(gateway="gateway-2", queues=[work]))
    asked = [asyncio.create_task(stage.chat()) for _ in range(40)]
    await eventually(lambda: sum(task.done() for task in asked) == 37)
    refused = [task.result() for task in asked if task.done()]
    assert {(answer.status_code, answer.headers["retry-after"]) for answer in refused} == {(503, "11")}
    await eventually(lambda: len(stage.worker.jobs) == 3)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_a_queue_without_measured_throughput_is_limited_in_length(set_stage: SetStage) -> None:
    """A fleet of 8 slots whose throughput was not measured: 8 sequences run, 32 wait."""
    stage = await set_stage(never)
    full_fleet(stage, rate=None)
    asked = [asyncio.create_task(stage.chat(n=4)) for _ in range(16)]
    await eventually(lambda: sum(task.done() for task in asked) == 6)
    refused = [task.result() for task in asked if task.done()]
    assert {(answer.status_code, answer.headers["retry-after"]) for answer in refused} == {(503, "5")}
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_a_refusal_reads_no_body_and_charges_no_limit(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="1 requests/minute")
    stage.broker.alarm = True
    answer = await stage.client.post("/v1/chat/completions", content=b"no JSON", headers={"idempotency-key": "k"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    answer = await stage.client.post("/v1/chat/completions", content=b"no JSON")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    stage.broker.alarm = False
    assert (await stage.chat()).status_code == 200


async def test_a_waiting_stream_reports_its_queue_position(serve: Serve) -> None:
    """Two are before it, 256 tokens each at 100 a second; a client that repeats it by its key hears the same."""
    go = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        await go.wait()
        await count(worker, job)

    server = await serve(script, header_delay=0.0, ping_interval=0.05)
    full_fleet(server.stage, rate=100.0)
    work = QueuedWork(model=MODEL, service_class=ServiceClass.DEFAULT, running=8)
    server.stage.gateway.queues.observe(GatewayLoad(gateway="gateway-2", queues=[work]))
    waiting = [await server.post(stream=True) for _ in range(2)]
    await eventually(lambda: len(server.stage.worker.jobs) == 2)
    mine = [await server.post(headers=b"Idempotency-Key: k\r\n", stream=True) for _ in range(2)]
    for number, (reader, _) in enumerate([*waiting, *mine], 1):
        position = min(number, 3)
        await reader.readuntil(f": queue position {position}, about {math.ceil(2.56 * position)} s\n\n".encode())
    go.set()
    for reader, writer in [*waiting, *mine]:
        rest = await reader.readuntil(b"data: [DONE]\n\n")
        assert b'"content":"4 "' in rest
        assert b"queue position" not in rest.partition(b"data: ")[2]
        writer.close()


async def test_the_stock_client_ignores_queue_positions(serve: Serve) -> None:
    async def script(worker: ScriptedWorker, job: Job) -> None:
        await asyncio.sleep(0.1)
        await count(worker, job)

    server = await serve(script, header_delay=0.0, ping_interval=0.02)
    full_fleet(server.stage, rate=None)
    server.stage.gateway.queues.observe(elsewhere(100))
    stream = await server.client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "0 1 2 3 4 "


@pytest.mark.parametrize("stream", [False, True])
async def test_a_job_that_no_worker_begins_in_time_expires(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr(controller, "MIN_BEGIN_TIMEOUT", 0.2)
    stage = await set_stage(never, header_delay=0.0, max_wait=0.01)
    full_fleet(stage, rate=1000.0)
    answer = await stage.chat(stream=stream)
    assert answer.status_code == (200 if stream else 408)
    assert '"code":"deadline_exceeded"' in answer.text
    [job] = stage.worker.jobs
    assert job.begin_by < job.deadline
    await stage.worker.cancel_of(job.id).wait()


async def test_a_job_that_a_worker_has_begun_runs_until_its_deadline(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "MIN_BEGIN_TIMEOUT", 1.0)

    async def script(worker: ScriptedWorker, job: Job) -> None:
        worker.send(job, Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=5))
        await asyncio.sleep(job.begin_by - time.time() + 0.2)
        worker.send(job, Delta(job_id=job.id, attempt_id="a", start=0, token_ids=[0], text="0 ", finish_reason="stop"))
        worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=usage(job, 1)))

    stage = await set_stage(script, max_wait=0.01)
    full_fleet(stage, rate=1000.0)
    assert (await stage.chat()).status_code == 200


async def test_no_worker_after_waiting_for_one(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One was there a minute ago: its model is known, and jobs are queued, but it does not come back."""
    monkeypatch.setattr(controller, "MIN_BEGIN_TIMEOUT", 0.2)
    stage = await set_stage(never, max_wait=0.01)
    clock = stage.gateway.models._clock
    monkeypatch.setattr(stage.gateway.models, "_clock", lambda: clock() + 30)
    answer = await stage.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_unavailable")
    assert len(stage.worker.jobs) == 1
