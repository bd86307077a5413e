"""Chat completions for callers in the gateway's own process: admitted, limited, billed and streamed as over HTTP.

The web chat uses it: its users have no API key, and its answers outlive their HTTP requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from auth_billing.access.principal import Principal
from auth_billing.prices.price_book import PriceBook
from gateway.http.gateway import Gateway
from gateway.jobs.generation import ChoiceDelta, Generation
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import FinishReason, Usage

QUEUE_CHECK_INTERVAL = 1.0
"""Seconds between two checks of a request's queue position."""


@dataclass(frozen=True)
class QueueUpdate:
    """A waiting request's queue position (0: a slot is free) and estimated wait in `seconds`; `None`: unknown."""

    position: int
    seconds: float | None


@dataclass(frozen=True)
class AnswerUpdate:
    """Text since the previous update, usage and cost (nano-USD) so far; the last update has a `finish_reason`."""

    text: str
    usage: Usage
    cost: int
    finish_reason: FinishReason | None = None


async def complete(
    gateway: Gateway, prices: PriceBook, principal: Principal, fields: dict[str, Any]
) -> AsyncIterator[AnswerUpdate | QueueUpdate]:
    """Run a chat completion (OpenAI's fields, one choice, no tools); yield its updates. Closing cancels the job.

    Raises:
        GatewayError, GenerationError, AccountError, PublishError: the request was refused or failed; earlier
            updates stay valid.
    """
    body = ChatCompletionRequest.parse(fields)
    allowance = gateway.limits.allowance(principal)
    try:
        await allowance.enter()
        price_list = await prices.current()  # before admission: submission follows it without another await
        admitted = await gateway.admission.admit(principal, body)
        settings = gateway.settings
        origin = Origin.of(settings)
        job = build_chat_job(body, admitted, origin)
        price = price_list.price(job.model, job.service_class)
        async with gateway.jobs.submit(admitted, [job], allowance, streamed=True) as generation:
            finish_reason: FinishReason = "stop"
            async with aclosing(generation.batches()) as batches:  # type: ignore[type-var]
                first = asyncio.create_task(_next(batches))
                try:
                    async for update in _queue_updates(generation, first):
                        yield update
                    batch = await first
                finally:
                    first.cancel()
                    await asyncio.wait({first})  # `batches` can't be closed while this task runs in it
                while batch is not None:
                    finish_reason = next((d.finish_reason for _, d in batch if d.finish_reason), finish_reason)
                    used = generation.usage_so_far
                    if batch:
                        yield AnswerUpdate("".join(delta.text for _, delta in batch), used, price.cost(used))
                    batch = await _next(batches)
            yield AnswerUpdate("", generation.usage, price.cost(generation.usage), finish_reason)
    finally:
        allowance.close()


async def _next(batches: AsyncIterator[list[ChoiceDelta]]) -> list[ChoiceDelta] | None:
    return await anext(batches, None)


async def _queue_updates(
    generation: Generation, first: asyncio.Task[list[ChoiceDelta] | None]
) -> AsyncIterator[QueueUpdate]:
    """Yield the queue position whenever it changes, until `first`, the first batch, is done."""
    last: QueueUpdate | None = None
    while not first.done():
        estimate = generation.waiting
        if estimate is not None and estimate.position:
            known = estimate.seconds is not None and math.isfinite(estimate.seconds)
            update = QueueUpdate(estimate.position, estimate.seconds if known else None)
            if update != last:
                last = update
                yield update
        await asyncio.wait({first}, timeout=QUEUE_CHECK_INTERVAL)
