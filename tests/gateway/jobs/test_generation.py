"""The generation of one request's answer: its batches, its one outcome, and its first reply."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gateway.admission.other_gateways import OtherGatewaysLoad
from gateway.admission.publish_queue import PublishQueue, _Capacity
from gateway.errors import RequestTooLarge
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_completion_jobs
from gateway.openai.completions import CompletionRequest
from router.errors import MessageTooLarge, QueueFull
from router.messages import AttemptReport, AttemptState, Delta, FailureCode, Job, WorkerState
from router.model_registry import ModelRegistry
from router.producer.errors import DeadlinePassed, JobFailed, NotQueued
from router.producer.recovery_events import ReplyReceived
from tests.contract.examples import STATUS
from tests.fakes.scripted_worker import fail, never
from tests.gateway.conftest import KEY, MODEL, SetStage, Stage


async def open_generation(stage: Stage, *, deadline: float = 4e9, prompts: int = 1, n: int = 1) -> Generation:
    """An open generation that is not published."""
    gateway = stage.gateway
    principal = await gateway.authenticator.authenticate(KEY)
    body = CompletionRequest.parse({"model": MODEL, "prompt": ["a"] * prompts, "n": n, "max_tokens": 2})
    admitted = await gateway.admission.admit(principal, body)
    jobs = build_completion_jobs(body, admitted, Origin("gateway-1", deadline, 4096, 100_000))
    billing = gateway.billing.open(admitted, jobs, streamed=True)
    return Generation(gateway.jobs._services, jobs, billing)


def outcomes(stage: Stage) -> dict[str, float]:
    metric = stage.gateway.metrics.outcomes
    samples = [sample for each in metric.collect() for sample in each.samples if sample.name.endswith("_total")]
    return {sample.labels["outcome"]: sample.value for sample in samples}


async def test_choices_are_numbered_across_prompts(set_stage: SetStage) -> None:
    stage = await set_stage()
    generation = await open_generation(stage, prompts=2, n=2)
    await generation.publish({})
    choices = {choice async for batch in generation.batches() for choice, _ in batch}
    assert choices == {0, 1, 2, 3}
    assert generation.finished
    assert outcomes(stage) == {"finished": 1}


async def test_an_early_failure_is_raised_before_the_first_batch(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR))
    generation = await open_generation(stage)
    await generation.publish({})
    with pytest.raises(JobFailed):
        await generation.wait_for_first_reply(5.0)
    generation.close()


async def test_only_the_first_close_counts(set_stage: SetStage) -> None:
    stage = await set_stage(never)
    generation = await open_generation(stage)
    closed: list[str] = []
    generation.on_close(lambda: closed.append("closed"))
    assert generation.waiting is not None
    generation.close(DeadlinePassed())
    generation.close()
    assert generation.waiting is None
    assert closed == ["closed"]
    assert outcomes(stage) == {"DeadlinePassed": 1}


async def test_a_closed_generation_does_not_keep_what_its_callback_leads_to(set_stage: SetStage) -> None:
    stage = await set_stage(never)
    generation = await open_generation(stage)
    task = asyncio.create_task(asyncio.sleep(60))
    generation.on_close(task.cancel)
    kept = weakref.ref(task)
    generation.close()
    await asyncio.wait({task})
    del task
    assert kept() is None


async def test_the_deadline_ends_a_silent_generation(set_stage: SetStage) -> None:
    stage = await set_stage(never)
    generation = await open_generation(stage, deadline=0.0)
    await generation.publish({})
    with pytest.raises(DeadlinePassed):
        async for _ in generation.batches():
            pass


@pytest.mark.parametrize(
    ("error", "ended"),
    [(QueueFull("full"), NotQueued), (ValueError("a bug"), NotQueued), (MessageTooLarge("large"), RequestTooLarge)],
)
async def test_a_waiting_job_that_is_not_published_ends_the_request_and_the_jobs_behind_it(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, error: Exception, ended: type[Exception]
) -> None:
    monkeypatch.setattr(
        PublishQueue,
        "_capacity",
        lambda _queue, _model: _Capacity(
            slots=1, with_reserve=1, with_prefetch=2, others=OtherGatewaysLoad(), share=1, for_flex=2
        ),
    )
    stage = await set_stage(never)
    generation = await open_generation(stage, prompts=6)
    await generation.publish({})
    published: list[str] = []

    async def refuse_third(job: Job, _headers: Mapping[str, str]) -> None:
        published.append(job.id)
        if job is generation.jobs[2]:
            raise error

    monkeypatch.setattr(stage.gateway.bus, "publish_job", refuse_third)
    generation._queue_entries[0].leave()
    with pytest.raises(ended):
        await asyncio.wait_for(anext(generation.batches()), 5)
    await asyncio.sleep(0.01)  # closing released the slots of the first jobs
    assert published == [generation.jobs[2].id]


async def test_closing_cancels_a_publish_that_has_begun(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PublishQueue,
        "_capacity",
        lambda _queue, _model: _Capacity(
            slots=1, with_reserve=1, with_prefetch=2, others=OtherGatewaysLoad(), share=1, for_flex=2
        ),
    )
    stage = await set_stage(never)
    generation = await open_generation(stage, prompts=3)
    await generation.publish({})
    begun, published = asyncio.Event(), []

    async def publish_later(job: Job, _headers: Mapping[str, str]) -> None:
        begun.set()
        await asyncio.sleep(0)
        published.append(job.id)

    monkeypatch.setattr(stage.gateway.bus, "publish_job", publish_later)
    generation._queue_entries[0].leave()
    await begun.wait()
    generation.close()
    await asyncio.sleep(0.01)
    assert published == []


async def test_a_begun_answer_is_served_by_its_worker_and_by_those_that_can_continue_it(set_stage: SetStage) -> None:
    stage = await set_stage(never)
    generation, models = await open_generation(stage), ModelRegistry(lambda: 1000.0)
    generation._reader._source = generation._reader._source._replace(models=models)

    def alive(worker: str, state: WorkerState, *, continues: bool) -> None:
        models.observe(replace(STATUS, worker=worker, model=MODEL, state=state, continues=continues))

    assert not generation._reader.is_served
    alive("proxy-1", WorkerState.READY, continues=False)
    assert generation._reader.is_served, "it has not begun"
    recovery, job = generation._open[0].recovery, generation.jobs[0].id
    recovery.receive(ReplyReceived("proxy-1", Delta(job_id=job, attempt_id="a", start=0, token_ids=[1])), 0)
    assert generation._reader.is_served, "its worker lives"
    report = AttemptReport(job_id=job, attempt_id="a", state=AttemptState.HANDED_OVER)
    recovery.receive(ReplyReceived("proxy-1", report), 0)
    assert not generation._reader.is_served
    alive("worker-1", WorkerState.READY, continues=True)
    assert generation._reader.is_served
    alive("worker-1", WorkerState.STARTING, continues=True)
    assert generation._reader.is_served, "it will when it has loaded the model"
    generation.close()
