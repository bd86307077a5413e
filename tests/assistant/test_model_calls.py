"""Calls of models as child jobs: their ids, limits and usage, also of one that is cut off."""

from __future__ import annotations

import time
from contextlib import aclosing

import pytest
from prometheus_client import CollectorRegistry

from assistant.model_calls import ModelCalls
from assistant.model_port import ModelCallFailed, ModelPiece, ModelRequest
from router.bus import Bus
from router.messages import ChatPrompt, FailureCode, Job, SamplingParams, Step, StepState, Usage
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.metrics import ProducerMetrics
from tests.assistant.conftest import Platform
from tests.fakes.fleet import until
from tests.fakes.jobs import make_job
from tests.fakes.scripted_worker import fail, say, start_and_wait

REQUEST = ModelRequest("m", [{"role": "user", "content": "hi"}], max_tokens=9)


def parent() -> Job:
    now = time.time()
    sampling = SamplingParams(seed=3, default_max_tokens=50)
    route = Step(number=0, kind="route", name="math", state=StepState.DONE)
    return make_job("p", created=now, deadline=now + 30, sampling=sampling, steps=[route])


async def calls(platform: Platform) -> ModelCalls:
    bus = Bus(await platform.transport("assistant-9"))
    metrics = ProducerMetrics(CollectorRegistry())
    children = ChildJobs(bus, "assistant-9", metrics, no_worker_timeout=0.5, max_unread_bytes=2**20)
    await children.open()
    platform.run(children.run())

    def as_answer(request: ModelRequest) -> ChildRequest:
        return ChildRequest("a", request.model, ChatPrompt(messages=[*request.messages]), SamplingParams(seed=8))

    return ModelCalls(children, parent(), {}, as_answer)


async def test_each_piece_has_the_usage_until_then(platform: Platform) -> None:
    worker = await platform.scripted("m", say("a", "b"))
    models = await calls(platform)
    pieces = [piece async for piece in models.generate(REQUEST)]
    assert "".join(piece.text for piece in pieces) == "ab"
    assert [piece.delta is not None for piece in pieces] == [False, True, True, False]
    assert pieces[0] == ModelPiece(usage=Usage(prompt_tokens=5))
    assert pieces[1].usage == Usage(prompt_tokens=5, completion_tokens=1)
    assert pieces[-1].usage == Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=2)
    [job] = worker.jobs
    assert (job.id, job.sampling.seed, job.sampling.max_tokens, job.sampling.temperature) == ("p-s1-1", 3, 9, 0.0)


async def test_an_answering_call_is_made_as_the_job_asks(platform: Platform) -> None:
    worker = await platform.scripted("m", say("a"))
    models = await calls(platform)
    async for _ in models.generate(ModelRequest("m", [], answers=True)):
        pass
    assert (worker.jobs[0].id, worker.jobs[0].sampling.seed) == ("p-a", 8)


async def test_closing_a_call_cancels_its_job(platform: Platform) -> None:
    worker = await platform.scripted("m", start_and_wait)
    models = await calls(platform)
    async with aclosing(models.generate(REQUEST)) as pieces:
        async for piece in pieces:
            if piece.text:
                break
    await until(worker.cancelled["p-s1-1"].is_set)


@pytest.mark.parametrize("known", [True, False])
async def test_a_failed_call_says_so(platform: Platform, known: bool) -> None:
    if known:
        await platform.scripted("m", fail(FailureCode.ENGINE_ERROR, "Broken."))
    models = await calls(platform)
    with pytest.raises(ModelCallFailed, match="Broken" if known else "no queue is bound"):
        async for _ in models.generate(REQUEST):
            pass
