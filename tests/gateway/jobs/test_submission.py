"""Submission of jobs: every error and disconnect ends the generation and releases what was held."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from auth_billing.errors import InsufficientCredit, RateLimitExceeded
from gateway.errors import ClientDisconnected
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import Job
from tests.fakes.scripted_worker import never
from tests.gateway.conftest import HI, KEY, MODEL, SetStage, Stage, eventually


async def submission(stage: Stage, **options: Any) -> tuple[Job, AbstractAsyncContextManager[Generation]]:
    """A job, and its submission by an authenticated caller."""
    gateway = stage.gateway
    principal = await gateway.authenticator.authenticate(KEY)
    body = ChatCompletionRequest.parse({"model": MODEL, "messages": HI, "max_tokens": 3})
    allowance = gateway.limits.allowance(principal)
    await allowance.enter()
    admitted = await gateway.admission.admit(principal, body)
    job = build_chat_job(body, admitted, Origin("gateway-1", 4e9, 4096))
    return job, gateway.jobs.submit(admitted, [job], allowance, streamed=True, **options)


async def test_the_generation_is_published_and_read(set_stage: SetStage) -> None:
    stage = await set_stage()
    _, submit = await submission(stage)
    async with submit as generation:
        text = "".join([delta.text async for batch in generation.batches() for _, delta in batch])
    assert text
    assert generation.finished
    assert generation.usage.completion_tokens == generation.usage_so_far.completion_tokens > 0


async def test_an_error_in_the_block_cancels_the_job(set_stage: SetStage) -> None:
    stage = await set_stage(never)
    job, submit = await submission(stage)

    async def break_off() -> None:
        async with submit:
            await stage.worker.received.wait()
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await break_off()
    await asyncio.wait_for(stage.worker.cancel_of(job.id).wait(), 5)
    assert len(stage.gateway.inbox) == 0


async def test_a_disconnect_abandons_the_generation(set_stage: SetStage) -> None:
    stage = await set_stage(never)
    left = asyncio.Event()

    async def disconnected() -> None:
        await left.wait()

    _, submit = await submission(stage, disconnected=disconnected)

    async def read() -> None:
        async with submit as generation:
            left.set()
            async for _ in generation.batches():
                pass

    with pytest.raises(ClientDisconnected):
        await read()
    await eventually(stage.is_settled)


@pytest.mark.parametrize("error", [RateLimitExceeded, InsufficientCredit])
async def test_without_limits_or_credit_nothing_is_published(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    stage = await set_stage(limits_per_model="1 requests/day") if error is RateLimitExceeded else await set_stage()
    if error is RateLimitExceeded:
        await stage.chat()
    else:
        stage.billing.refusal = InsufficientCredit(1, 2)
    before = len(stage.worker.jobs)
    _, submit = await submission(stage)
    with pytest.raises(error):
        async with submit:
            pass
    assert len(stage.worker.jobs) == before
    assert len(stage.gateway.inbox) == 0
