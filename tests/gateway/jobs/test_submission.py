"""Submission of jobs: every error and disconnect ends the generation and releases what was held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from auth_billing.errors import InsufficientCredit, RateLimitExceeded
from auth_billing.rate_limits.limiter import TokenUse
from gateway.errors import ClientDisconnected
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import Job
from tests.fakes.scripted_worker import never, search
from tests.gateway.conftest import HI, KEY, MODEL, VERIFIER, SetStage, Stage, announce_searches, eventually


async def submission(stage: Stage, **options: Any) -> tuple[Job, AbstractAsyncContextManager[Generation]]:
    """A job, and its submission by an authenticated caller."""
    gateway = stage.gateway
    principal = await gateway.authenticator.authenticate(KEY)
    body = ChatCompletionRequest.parse({"model": MODEL, "messages": HI, "max_tokens": 3})
    allowance = gateway.limits.allowance(principal)
    await allowance.enter()
    admitted = await gateway.admission.admit(principal, body)
    job = build_chat_job(body, admitted, Origin("gateway-1", 4e9, 4096, 100_000))
    return job, gateway.jobs.submit(admitted, [job], allowance, streamed=True, **options)


async def test_the_generation_is_published_and_read(set_stage: SetStage) -> None:
    stage = await set_stage()
    _, submit = await submission(stage)
    async with submit as generation:
        text = "".join([delta.text async for batch in generation.batches() for _, delta in batch])
    assert text
    assert generation.finished
    assert generation.usage.completion_tokens == generation.usage_so_far.completion_tokens > 0


class RecordingAllowance:
    """Rate limits without limits, which record the charge."""

    most = TokenUse()

    def __init__(self) -> None:
        self.used: Callable[[], TokenUse] = TokenUse

    def retain(self) -> None: ...

    def close(self) -> None: ...

    async def charge(self, model: str, *, most: TokenUse, least: int, used: Callable[[], TokenUse]) -> None:
        self.most, self.used = most, used


async def test_a_search_is_charged_its_budget_and_gives_back_what_it_did_not_use(set_stage: SetStage) -> None:
    stage = await set_stage(search)
    await announce_searches(stage)
    options = {"method": "best_of_n", "verifier": VERIFIER, "budget_tokens": 300}
    fields = {"model": MODEL, "messages": HI, "max_tokens": 3, "test_time_compute": options}
    body, principal = ChatCompletionRequest.parse(fields), await stage.gateway.authenticator.authenticate(KEY)
    admitted = await stage.gateway.admission.admit(principal, body)
    job = build_chat_job(body, admitted, Origin("gateway-1", 4e9, 4096, 100_000))
    allowance = RecordingAllowance()
    async with stage.gateway.jobs.submit(admitted, [job], allowance, streamed=True) as generation:  # type: ignore[arg-type]
        async for _ in generation.batches():
            pass
    assert allowance.most == TokenUse(125 + 3 + 300 + 300, {MODEL: 125 + 3 + 300, VERIFIER: 300})
    assert allowance.used() == TokenUse(5 + 2 + 24 + 81, {MODEL: 5 + 2 + 24, VERIFIER: 81})


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
