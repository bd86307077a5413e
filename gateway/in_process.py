"""Runs chat completions for callers in the gateway's process, as the web chat: admitted, limited, billed and streamed.

The web chat uses it: its users have no API key, and its answers outlive their HTTP requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from auth_billing.access.principal import Principal
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import PriceList
from gateway.http.gateway import Gateway
from gateway.jobs.generation import ChoiceDelta, Generation
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.jobs.prompt_images import PromptImages
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import FinishReason, Job, Step, Usage, UsagePart

QUEUE_CHECK_INTERVAL = 1.0
"""Seconds between two checks of a request's queue position."""


@dataclass(frozen=True)
class QueueUpdate:
    """A waiting request's queue position (0: a slot is free) and estimated wait in `seconds`; `None`: unknown."""

    position: int
    seconds: float | None


@dataclass(frozen=True)
class AnswerUpdate:
    """Text, reasoning and steps since the previous update, usage and cost (nano-USD) so far.

    The last update has a `finish_reason`.
    """

    text: str
    usage: Usage
    """Usage of the answer, without that of its steps."""
    cost: int
    """Cost of the answer and of its steps."""
    finish_reason: FinishReason | None = None
    steps: tuple[Step, ...] = ()
    """Steps that started or ended; a running step and its end have the same number."""
    parts: tuple[UsagePart, ...] = ()
    """Usage of all steps so far, by model."""
    reasoning: str = ""
    """Reasoning before the text."""


async def complete(
    gateway: Gateway, prices: PriceBook, principal: Principal, fields: dict[str, Any]
) -> AsyncIterator[AnswerUpdate | QueueUpdate]:
    """Run a chat completion (OpenAI's `fields`, one choice, no tools) and yield its updates. Closing cancels the job.

    Raises:
        GatewayError, GenerationError, AccountError, PublishError: the request was refused or failed; earlier
            updates stay valid.
    """
    body = ChatCompletionRequest.parse(fields)
    allowance = gateway.limits.allowance(principal)
    try:
        await allowance.enter()
        gateway.admission.check_images(principal, body)
        images = await PromptImages(gateway.objects, gateway.addresses).read(principal, body)
        price_list = await prices.current()  # before admission: submission follows it without another await
        admitted = await gateway.admission.admit(principal, body)
        settings = gateway.settings
        origin = Origin.of(settings)
        job = build_chat_job(body, admitted, origin, images)
        cost = partial(_cost, price_list, job)
        price_list.price(job.model, job.service_class)  # refuses a model without a price before its job is submitted
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
                    used, parts = generation.usage_so_far, tuple(generation.parts)
                    if batch:
                        text = "".join(delta.text for _, delta in batch)
                        steps = tuple(delta.step for _, delta in batch if delta.step is not None)
                        reasoning = "".join(delta.reasoning for _, delta in batch)
                        price = cost(used, parts)
                        yield AnswerUpdate(text, used, price, steps=steps, parts=parts, reasoning=reasoning)
                    batch = await _next(batches)
            used, parts = generation.usage, tuple(generation.parts)
            yield AnswerUpdate("", used, cost(used, parts), finish_reason, parts=parts)
    finally:
        allowance.close()


def _cost(prices: PriceList, job: Job, usage: Usage, parts: Sequence[UsagePart]) -> int:
    """Return the cost in nano-USD of the job's answer, and of its steps at the prices of their models."""
    of_parts = (prices.price_of(part.model, part.usage, job.service_class).cost(part.usage) for part in parts)
    return prices.price(job.model, job.service_class).cost(usage) + sum(of_parts)


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
